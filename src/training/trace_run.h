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
  std::uint64_t steps = 20;      ///< number of traced steps, at least 1
  std::uint64_t warm_up = 5;     ///< number of steps before them
  std::size_t events_per_row = TraceRecorder::Options{}.events_per_row;
  std::function<bool()> stop = {};
  std::function<void(const Progress&)> progress = {};  ///< progress of the traced steps
};

struct Trace {
  std::shared_ptr<TraceRecorder> recorder;  ///< the recorder, which has been stopped
  RunResult run;                            ///< the traced steps
  /// Why the rows of a GPU's kernels are missing, a sentence; "" if they are not missing, and on a
  /// CPU.
  std::string no_kernels;

  /// Facts about the trace: the plan, the input, the depth, the number of steps, the error of the
  /// conversion from the GPU's clock to the host's, and what could not be recorded.
  TraceFacts facts;
};

/// Runs the warm-up steps of `plan`, then traces a run: always lanes and loader, on a GPU also
/// kernels. These are real steps of the trainer, except with cached input (a Cut), which does not
/// change its position. All of the loader's work on the traced batches is recorded, also if it was
/// done before the first traced step. Only one trace may run in a process at a time. Throws what
/// Trainer::run() throws, and Refused for an unknown input or 0 steps.
Trace run_trace(Trainer& trainer, const Plan& plan, const TraceOptions& options);

}  // namespace slipstream
