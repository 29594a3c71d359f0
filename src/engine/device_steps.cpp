#include "engine/device_steps.h"

#include <algorithm>

#include "engine/augment_stage.h"
#include "engine/context_parts.h"
#include "engine/mix_stage.h"
#include "engine/numerics_scope.h"

namespace slipstream {

DeviceSteps::DeviceSteps(const BoundPipeline& bound) : bound_(bound) {
  const SlabLayout layout = bound.layout({});
  if (layout.batch_chain != nullptr) mix_ = mix_stage(layout);
}

const FrozenStage* DeviceSteps::augmenting(const Plan& plan) {
  const std::string& from = plan.schedule.loader.on_device;
  if (from.empty()) return nullptr;
  const WireFormats wire = wire_formats(plan);
  if (augment_ && augmented_from_ == from && augmented_wire_ == wire) return &*augment_;
  augment_ = augment_stage(bound_.layout(plan), bound_.context.kind() == DeviceKind::cuda);
  augmented_from_ = from;
  augmented_wire_ = wire;
  return &*augment_;
}

std::vector<DeviceStep> DeviceSteps::of(const Plan& plan, const RunOptions& options) {
  std::vector<DeviceStep> steps = {{DeviceStep::Kind::copy, "copy", nullptr}};
  if (const FrozenStage* augment = augmenting(plan))
    steps.push_back({DeviceStep::Kind::frozen, kAugmentStep, augment});
  if (mix_) steps.push_back({DeviceStep::Kind::frozen, kMixStep, &*mix_});
  for (const auto& stage : bound_.pipeline.stages())
    steps.push_back({DeviceStep::Kind::frozen, stage.name, &stage.stage, !stage.stage.uses_number});
  steps.push_back({DeviceStep::Kind::train, bound_.pipeline.train_name(), nullptr, true});
  const auto named = [&](const std::string& name) {
    return std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.name == name; });
  };
  if (!options.last_step.empty()) {
    const auto last = named(options.last_step);
    if (last == steps.end())
      throw Refused(unknown_name("step", options.last_step,
                                 bound_.pipeline.device_steps(plan.schedule.loader.on_device)));
    steps.erase(last + 1, steps.end());
  }
  if (options.cut) {
    const auto after = named(options.cut->after);
    if (after != steps.end() && after->kind != DeviceStep::Kind::train)
      steps.erase(steps.begin(), after + 1);
  }
  if (steps.empty()) throw Refused("the run has no step left between its cut and its last step");
  return steps;
}

std::vector<LaneBinding> DeviceSteps::on_lanes(const Plan& plan, const RunOptions& options) {
  const std::vector<DeviceStep> steps = of(plan, options);
  std::vector<LaneBinding> lanes;
  for (const LanePlan& planned : plan.schedule.lanes) {
    LaneBinding lane;
    for (const std::string& name : planned.steps)
      for (const DeviceStep& step : steps)
        if (step.name == name) lane.steps.push_back(step);
    if (lane.steps.empty()) continue;
    lane.lane = &get_lane(bound_.context, planned.steps.back(), planned.priority);
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

Fields run_frozen(const BoundPipeline& bound, const std::vector<DeviceStep>& steps, Batch batch,
                  std::string& doing) {
  const Batch before = batch;
  for (const DeviceStep& step : steps) {
    if (step.kind != DeviceStep::Kind::frozen) continue;
    doing = "stage '" + step.name + "' ";
    const StageScope scope(bound.numerics, bound.context.device(), step.name);
    step.frozen->run(batch);
  }
  return made_between(before, batch);
}

Fields made_between(const Batch& before, const Batch& after) {
  Fields made;
  for (const auto& [name, tensor] : after.fields())
    if (!before.contains(name) || !before.at(name).is_same(tensor)) made.emplace_back(name, tensor);
  return made;
}

}  // namespace slipstream
