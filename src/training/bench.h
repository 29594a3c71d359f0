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
  /// Where transforms are done, "cpu" or "cuda": every plan is measured with each (placed_plan()).
  std::vector<std::string> transforms_devices = {"cpu"};
  std::string input = "loader";  ///< "loader", "host" (pinned batches cached) or "device"
  std::uint64_t steps = 100;     ///< of each measurement
  unsigned repeats = 3;          ///< rounds in which all measurements take turns
  /// A measurement takes at most about this long, but for the fewest steps that tell.
  double seconds = 2;
  LoaderPlan loader;
  Plan::Numerics numerics;
  std::function<bool()> stop;
  std::function<void(const std::string& line)> log_line;  ///< told what is measured
};

/// Measures a workload's plans with its transforms on each device, and each lane of the
/// pipelined plans alone, for each batch size. All measurements of one batch size take turns, round
/// after round; the intervals are over all their steps, but for those that batches filled ahead
/// fed. A batch size that cannot be run gives a row with its error, and one that loses the device
/// is the last; what is refused at the first is thrown. A loss that is not finite ends nothing.
std::vector<BenchRow> run_bench(Context& context,
                                const std::function<Pipeline(std::size_t batch_size)>& make,
                                const BenchOptions& options);

}  // namespace slipstream
