#pragma once

#include "engine/device_feed.h"
#include "engine/device_steps.h"
#include "engine/execution.h"
#include "engine/lane_warm_up.h"
#include "engine/run_hooks.h"
#include "engine/training_state.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Binds a declared pipeline to a device, and runs it.
struct Trainer::Impl {
  Impl(Pipeline pipeline, Context& context, const Plan::Numerics& numerics);

  RunResult run(const Plan& plan, const RunOptions& options, const RunHooks& hooks);
  void restore(const State& given);
  /// Sets the position to the first step without changing the weights.
  void restart();
  /// Frees the graphs and the memory of their slots.
  void release_graphs() { kept_.reset(); }

  BoundPipeline bound;
  TrainingState state;

 private:
  /// The memory of the last run under a plan with graphs.
  struct KeptMemory {
    Plan plan;
    std::vector<std::uint64_t> fixed;  ///< BoundPipeline::find_fixed()
    std::shared_ptr<RunMemory> memory;
  };

  /// Throws Refused if the plan or the options cannot be run now.
  void check(const Plan& plan, const RunOptions& options, const RunHooks& hooks) const;
  /// Returns the memory for a run, which is that of an earlier run if its graphs can be used again.
  std::shared_ptr<RunMemory> find_memory(const Plan& plan, const RunOptions& options,
                                         const RunHooks& hooks,
                                         const std::vector<LaneBinding>& lanes);
  void wait_for_caller(const Plan& plan);
  /// Moves the feed to the first batch of a run and returns the counters before it. Returns no
  /// value if no lane takes batches from the feed; the feed is then only prepared to fill a cache.
  std::optional<DeviceFeed::Counted> seek(const Plan& plan, const RunOptions& options,
                                          const RunHooks& hooks,
                                          const std::vector<LaneBinding>& lanes);
  RunResult collect(const Plan& plan, const RunOptions& options, Execution& execution,
                    const std::optional<DeviceFeed::Counted>& before, std::uint64_t steps,
                    double wall_s);
  /// Writes the feed's counters since `before` into the result.
  void count_input(const DeviceFeed::Counted& before, RunResult& result) const;
  /// Counts the trained steps of a whole run.
  void absorb(const RunOptions& options, const Record& record);
  /// Counts the steps that were trained before a run failed, and returns where it failed, as text.
  std::string settle(const RunOptions& options, Execution& execution, const Schedule& schedule);

  DeviceSteps steps_;
  DeviceFeed feed_;
  LaneWarmUp warm_up_;
  std::optional<KeptMemory> kept_;
};

}  // namespace slipstream
