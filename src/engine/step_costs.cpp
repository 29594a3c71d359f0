#include "engine/step_costs.h"

#include "core/number_text.h"
#include "engine/access.h"
#include "engine/delays.h"

namespace slipstream {

constexpr double kMostCostS = 10;

Pipeline with_costs(Pipeline pipeline, const StepCosts& costs) {
  for (const double cost_s : {costs.train_s, costs.copy_s, costs.hand_over_s})
    if (!(cost_s >= 0 && cost_s <= kMostCostS))
      throw Refused("pipeline: a step's costs are 0 to 10 seconds each, not " +
                    number_text(cost_s));
  Access::costs(pipeline) = std::make_shared<const StepCosts>(costs);
  return pipeline;
}

void simulate_step_cost(const Pipeline& pipeline, bool is_copied, bool is_put_together,
                        Lane& lane) {
  if (Access::costs(pipeline) == nullptr) return;
  const StepCosts& costs = *Access::costs(pipeline);
  for (const double cost_s :
       {costs.train_s, is_copied ? costs.copy_s : 0, is_put_together ? costs.hand_over_s : 0})
    if (cost_s > 0) delay_lane(lane, cost_s * 1e6);
}

}  // namespace slipstream
