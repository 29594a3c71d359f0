#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/trace.h"
#include "report/trace_report.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

struct TraceOptions {
  std::string input = "loader";  ///< "loader", "host" (pinned batches cached) or "device"
  std::uint64_t steps = 20;      ///< that are traced, at least 1
  std::uint64_t warm_up = 5;     ///< steps before them
  std::size_t events_per_row = TraceRecorder::Options{}.events_per_row;
  std::function<bool()> stop = {};
  std::function<void(const Progress&)> progress = {};  ///< of the traced steps
};

struct Trace {
  std::shared_ptr<TraceRecorder> recorder;  ///< that records no more
  RunResult run;                            ///< the traced steps
  /// Why the rows of a GPU's kernels are missing, a sentence; "" where they are there, and on a
  /// CPU.
  std::string no_kernels;

  /// Plan, input, rate, depth, how well the clocks of GPU and host are joined, and what is missing.
  TraceFacts facts;
};

/// Runs `plan` for the steps to warm up, then traces a run of it: lanes and loader always, on a GPU
/// the kernels too. These are real steps of the trainer, but for cached input (a Cut), which leaves
/// its position as it is. Of the loader, all work on the traced batches is there, also what was
/// done ahead of the first traced step. Throws what Trainer::run throws, and Refused for an unknown
/// input or 0 steps. One at a time in a process.
Trace run_trace(Trainer& trainer, const Plan& plan, const TraceOptions& options);

}  // namespace slipstream
