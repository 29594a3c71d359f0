#pragma once

#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// Time that a step of training costs on top of what it does, to find out whether a diagnosis finds
/// it. All of it is spent ahead of the training stage, on its lane, whatever the plan: as a wait, 0
/// to 10 s each.
struct StepCosts {
  double train_s = 0;      ///< of every step
  double copy_s = 0;       ///< of a step whose batch was copied, not cached on the device
  double hand_over_s = 0;  ///< of a step whose batch the loader put together, not one cached whole
};

/// `pipeline` with these costs. Throws Refused for costs that are out of range.
Pipeline with_costs(Pipeline pipeline, const StepCosts& costs);

/// Spends what a step of `pipeline` costs, on `lane`.
void simulate_step_cost(const Pipeline& pipeline, bool is_copied, bool is_put_together, Lane& lane);

}  // namespace slipstream
