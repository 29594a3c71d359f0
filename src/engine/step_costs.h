#pragma once

#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// Artificial extra time of a training step, used to test whether a diagnosis finds it. In every
/// plan it is spent on the lane of the training stage, before that stage, as a wait. Each cost is 0
/// to 10 s.
struct StepCosts {
  double train_s = 0;  ///< added to every step
  double copy_s = 0;   ///< added if the batch was copied, not cached on the device
  /// Added if the loader assembled the batch, not if it was cached as a whole.
  double hand_over_s = 0;
};

/// Returns `pipeline` with these costs. Throws Refused if a cost is out of range.
Pipeline with_costs(Pipeline pipeline, const StepCosts& costs);

/// Waits on `lane` for the cost of a step of `pipeline`.
void simulate_step_cost(const Pipeline& pipeline, bool is_copied, bool is_put_together, Lane& lane);

}  // namespace slipstream
