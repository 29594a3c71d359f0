#pragma once

#include <cstdint>

#include "slipstream/run/trainer.h"

namespace slipstream {

struct ForkProbe;
struct ScheduleProbe;

/// What tests of order do to a run. The probes must outlive it.
struct RunHooks {
  /// With it a loss may be anything, for it may leave waits out.
  const ScheduleProbe* probe = nullptr;
  const ForkProbe* fork_probe = nullptr;
  /// Every lane is delayed before and after each batch, and every branch before and after its work,
  /// at random by up to this much, drawn from `delay_seed`.
  double lane_delay_us = 0;
  std::uint64_t delay_seed = 0;
};

/// trainer.run() with hooks.
RunResult run_with(Trainer& trainer, const Plan& plan, const RunOptions& options,
                   const RunHooks& hooks);

}  // namespace slipstream
