#pragma once

#include <cstdint>
#include <memory>

#include "slipstream/engine/trainer.h"

namespace slipstream {

struct ForkProbe;
struct ScheduleProbe;
class TraceRecorder;

/// What tests of order do to a run, and what records it. The probes must outlive it.
struct RunHooks {
  /// With it a loss may be anything, for it may leave waits out.
  const ScheduleProbe* probe = nullptr;
  const ForkProbe* fork_probe = nullptr;
  /// Every lane is delayed before and after each batch, and every branch before and after its work,
  /// at random by up to this much, drawn from `delay_seed`.
  double lane_delay_us = 0;
  std::uint64_t delay_seed = 0;
  /// Takes a row a lane, with every step of every batch, for a GPU's lane also one of the host that
  /// enqueues it, and without a cut the loader's rows; each step of the host is an NVTX range,
  /// "STEP #BATCH". A GPU's times are put on the host's clock (TraceRecorder::clock_error_ns).
  /// Changes no bit. nullptr: nothing is recorded.
  std::shared_ptr<TraceRecorder> trace = nullptr;
};

/// trainer.run() with hooks.
RunResult run_with(Trainer& trainer, const Plan& plan, const RunOptions& options,
                   const RunHooks& hooks);

}  // namespace slipstream
