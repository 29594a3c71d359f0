#include <algorithm>

#include "run/augment_stage.h"
#include "run/trainer_impl.h"

namespace slipstream {

const FrozenStage* Trainer::Impl::augmenting(const Plan& plan) {
  const std::string& from = plan.schedule.loader.on_device;
  if (from.empty()) return nullptr;
  const WireFormats wire = wire_formats(plan);
  if (augment_ && augmented_from_ == from && augmented_wire_ == wire) return &*augment_;
  augment_ = augment_stage(layout_of(plan, pipeline.options().batch_size),
                           context.kind() == DeviceKind::cuda);
  augmented_from_ = from;
  augmented_wire_ = wire;
  return &*augment_;
}

std::vector<DeviceStep> Trainer::Impl::steps_of(const Plan& plan, const RunOptions& options) {
  std::vector<DeviceStep> steps = {{DeviceStep::Kind::copy, "copy", nullptr}};
  if (const FrozenStage* augment = augmenting(plan))
    steps.push_back({DeviceStep::Kind::frozen, kAugmentStep, augment});
  if (mix_) steps.push_back({DeviceStep::Kind::frozen, kMixStep, &*mix_});
  for (const auto& stage : pipeline.stages())
    steps.push_back({DeviceStep::Kind::frozen, stage.name, &stage.stage});
  steps.push_back({DeviceStep::Kind::train, pipeline.train_name(), nullptr});
  const auto named = [&](const std::string& name) {
    return std::find_if(steps.begin(), steps.end(), [&](const auto& s) { return s.name == name; });
  };
  if (!options.last_step.empty()) {
    const auto last = named(options.last_step);
    if (last == steps.end())
      throw Refused(unknown_name("step", options.last_step,
                                 pipeline.device_steps(plan.schedule.loader.on_device)));
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

std::vector<LaneBinding> Trainer::Impl::bind(const Plan& plan, const RunOptions& options) {
  const std::vector<DeviceStep> steps = steps_of(plan, options);
  std::vector<LaneBinding> lanes;
  for (const LanePlan& planned : plan.schedule.lanes) {
    LaneBinding lane;
    for (const std::string& name : planned.steps)
      for (const DeviceStep& step : steps)
        if (step.name == name) lane.steps.push_back(step);
    if (lane.steps.empty()) continue;
    lane.lane = &context.lane(planned.steps.back(), planned.priority);
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace slipstream
