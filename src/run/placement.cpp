#include "slipstream/run/pipeline.h"

#include <algorithm>

namespace slipstream {

const std::vector<std::string>& placements() {
  static const std::vector<std::string> all = {"cpu", "gpu", "pipelined"};
  return all;
}

void check_placement(const std::string& placement) {
  if (std::find(placements().begin(), placements().end(), placement) == placements().end())
    throw Refused(unknown_name("placement", placement, placements()));
}

Plan placed_plan(const Pipeline& pipeline, const std::string& mode, const std::string& placement,
                 DeviceKind device, LoaderPlan loader, const Plan::Numerics& numerics) {
  check_placement(placement);
  if (placement == "cpu") {
    loader.on_device.clear();
  } else if (loader.on_device.empty()) {
    Plan travels;
    travels.schedule.loader.wire = loader.wire;
    travels.numerics.wire = numerics.wire;
    loader.on_device = first_on_device(pipeline, wire_formats(travels));
  }
  Plan plan = make_plan(mode, pipeline.device_steps(loader.on_device), device, loader, numerics);
  const bool is_mixed = !pipeline.batch_ops().empty();
  if (placement == "gpu" || is_mixed) join_next_lane(plan, kAugmentStep);
  if (placement == "gpu" && is_mixed) join_next_lane(plan, kMixStep);
  return plan;
}

}  // namespace slipstream
