#pragma once

#include <cstdint>
#include <memory>

#include "engine/graph_recorder.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

struct ForkProbe;
struct ScheduleProbe;
class TraceRecorder;

/// Hooks of a run for tests of ordering and for recording traces. The probes must outlive the run.
struct RunHooks {
  /// Probe of the schedule. It may leave out waits, so the loss of such a run is not checked.
  const ScheduleProbe* probe = nullptr;
  const ForkProbe* fork_probe = nullptr;
  /// The largest random delay before and after each batch on every lane, and before and after the
  /// work of every branch, in microseconds. The delays are generated from `delay_seed`.
  double lane_delay_us = 0;
  std::uint64_t delay_seed = 0;
  /// Receives one row for each lane, with every step of every batch. On a GPU there is also one row
  /// for each lane with the times at which the host enqueued its steps, and without a cut the
  /// loader's rows. Each step of the host is also an NVTX range, "STEP #BATCH". GPU times are
  /// converted to the host's clock (TraceRecorder::clock_error_ns). Recording changes no bit of any
  /// result. nullptr: nothing is recorded.
  std::shared_ptr<TraceRecorder> trace = nullptr;
  /// Records the graphs of a plan with graphs, instead of make_cuda_recorder(). Also on a CPU.
  MakeRecorder make_recorder = {};
};

/// Calls trainer.run() with hooks.
RunResult run_with(Trainer& trainer, const Plan& plan, const RunOptions& options,
                   const RunHooks& hooks);

}  // namespace slipstream
