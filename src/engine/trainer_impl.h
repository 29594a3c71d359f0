#pragma once

#include "engine/device_steps.h"
#include "engine/execution.h"
#include "engine/jpeg_unpacking.h"
#include "engine/lane_warm_up.h"
#include "engine/run_hooks.h"
#include "engine/run_input.h"
#include "engine/training_state.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Binds a declaration to a device, and runs it.
struct Trainer::Impl {
  Impl(Pipeline pipeline, Context& context, const Plan::Numerics& numerics);

  RunResult run(const Plan& plan, const RunOptions& options, const RunHooks& hooks);
  void restore(const State& given);
  /// Goes back to the first step, whatever the weights are.
  void restart();

  BoundPipeline bound;
  TrainingState state;

 private:
  /// Throws Refused for what cannot be run now.
  void check(const Plan& plan, const RunOptions& options) const;
  void wait_for_caller(const Plan& plan);
  RunResult collect(const Plan& plan, const RunOptions& options, Execution& execution,
                    const RunInput::Source& source, std::uint64_t steps, double wall_s);
  /// Counts the trained steps of a whole run.
  void absorb(const RunOptions& options, const Record& record);
  /// Counts what a run that failed had trained before, and says in words where it failed.
  std::string settle(const RunOptions& options, Execution& execution, const Schedule& schedule);

  DeviceSteps steps_;
  JpegUnpacking jpeg_;
  RunInput input_;
  LaneWarmUp warm_up_;
};

}  // namespace slipstream
