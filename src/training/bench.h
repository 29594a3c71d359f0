#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/report.h"
#include "slipstream/engine/context.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

struct BenchOptions {
  std::vector<std::size_t> batch_sizes = {8, 16, 32, 64, 128};
  std::vector<std::string> plans = {"serial", "pipelined"};
  /// The devices of the transforms, "cpu" or "cuda". Every plan is measured with each of them
  /// (placed_plan()).
  std::vector<std::string> transforms_devices = {"cpu"};
  std::string input = "loader";  ///< "loader", "host" (pinned batches cached) or "device"
  std::uint64_t steps = 100;     ///< steps of each measurement
  unsigned repeats = 3;          ///< number of rounds; each makes every measurement once
  /// Approximate longest time of a measurement, in seconds. It takes longer if the smallest number
  /// of steps for a valid rate needs more time.
  double seconds = 2;
  LoaderPlan loader;
  Plan::Numerics numerics;
  std::function<bool()> stop;
  /// Receives a line before each measurement.
  std::function<void(const std::string& line)> log_line;
};

/// Measures a workload's plans with its transforms on each device, and each lane of the pipelined
/// plans alone, for each batch size. In each round, every measurement of one batch size is made
/// once. The intervals are computed from the steps of all rounds, except steps that used prefetched
/// batches. A batch size that cannot be run gives a row with its error. If the device is lost, that
/// row is the last one. Throws Refused if the first batch size is refused. A loss that is not
/// finite is not an error. The calling thread makes all runs and waits for them.
std::vector<BenchRow> run_bench(Context& context,
                                const std::function<Pipeline(std::size_t batch_size)>& make,
                                const BenchOptions& options);

}  // namespace slipstream
