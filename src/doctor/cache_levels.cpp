#include "doctor/cache_levels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

Plan with_pinned(Plan plan, bool pinned) {
  plan.schedule.loader.pin_memory = pinned;
  return plan;
}

std::string name_after(const std::vector<std::string>& steps, std::size_t step, bool has_decoding) {
  if (step + 2 == steps.size()) return std::string(kProcessedLevel);
  if (step == 0) return has_decoding ? "file bytes" : "raw sample";
  return step == 1 && has_decoding ? "decoded sample" : "after " + steps[step];
}

}  // namespace

std::vector<SampleLevel> sample_levels(const std::vector<std::string>& steps, bool has_decoding,
                                       bool only_first) {
  std::vector<SampleLevel> levels;
  for (std::size_t step = steps.size() - 1; step-- > 0;)
    if (!only_first || step == 0)
      levels.push_back({name_after(steps, step, has_decoding), steps[step], step});
  return levels;
}

bool travels_as_files(const Plan& plan) {
  const WireFormats wire = wire_formats(plan);
  return std::any_of(wire.begin(), wire.end(),
                     [](const auto& field) { return field.second == Wire::jpeg; });
}

std::vector<LevelPlan> plan_levels(const Pipeline& pipeline, const Plan& plan, bool on_gpu) {
  const std::vector<std::string> steps = pipeline.host_steps(plan.schedule.loader.on_device);
  const std::size_t collate = steps.size() - 1;
  const auto cut = [](const std::string& after) { return Cut{after, 1}; };
  std::vector<LevelPlan> levels;
  levels.push_back({std::string(kDeviceLevel), plan, cut("copy"), steps.size(), true});
  if (on_gpu) {
    const bool pinned = plan.schedule.loader.pin_memory;
    levels.push_back(
        {std::string(kPinnedLevel), with_pinned(plan, true), cut("collate"), collate, pinned});
    levels.push_back(
        {std::string(kPageableLevel), with_pinned(plan, false), cut("collate"), collate, !pinned});
  } else {
    levels.push_back({std::string(kHostLevel), plan, cut("collate"), collate, true});
  }
  for (SampleLevel& level : sample_levels(steps, true, travels_as_files(plan)))
    levels.push_back({std::move(level.name), plan, cut(level.after), level.step, false});
  levels.push_back({std::string(kWholeLevel), plan, std::nullopt, 0, true});
  return levels;
}

MeasuredLevel::MeasuredLevel(LevelPlan level)
    : plan(std::move(level)), training(plan.how, plan.cut) {
  const bool of_samples = plan.cut && plan.cut->after != "copy" && plan.cut->after != "collate";
  if (of_samples) loader_alone.emplace(plan.how, HostCut{plan.cut->after, plan.cut->items});
}

std::deque<MeasuredStep> steps_alone(const Pipeline& pipeline, const Plan& plan, DeviceKind device,
                                     std::size_t batches) {
  const auto& loader = plan.schedule.loader;
  const std::vector<std::string> names = pipeline.device_steps(loader.on_device);
  Plan apart = make_plan("pipelined", names, device, loader, plan.numerics);
  // make_plan() turns it on for a GPU, even if `plan` does not.
  apart.schedule.loader.pin_memory = loader.pin_memory;
  std::deque<MeasuredStep> steps;
  std::string after = "collate";
  for (const std::string& name : names) {
    steps.push_back({name, TrainingRate(apart, Cut{after, batches}, name)});
    after = name;
  }
  return steps;
}

std::vector<HostStepCost> host_costs(const DrainedRate& one, const DrainedRate& all,
                                     const std::vector<NamedOp>& transforms) {
  std::vector<HostStepCost> costs;
  const std::vector<StepCounter>& alone = one.counters();
  for (std::size_t i = 0; i < alone.size(); ++i) {
    HostStepCost& cost = costs.emplace_back();
    cost.name = alone[i].name;
    cost.group = host_step_group(i, alone.size());
    cost.wall_s = one.laps()[i].wall_s;
    cost.cpu_s = one.laps()[i].cpu_s;
    cost.bytes = bytes_per_sample(alone)[i];
    for (const NamedOp& transform : transforms)
      if (transform.name == cost.name) cost.is_random = transform.op.is_random();
    if (!all.is_measured()) continue;
    const auto samples = static_cast<double>(all.counters().back().calls);
    cost.wall_of_all_s = all.counters()[i].wall_s / samples;
    cost.cpu_of_all_s = all.counters()[i].cpu_s / samples;
    const StepLaps& laps = all.laps()[i];
    for (std::size_t k = 0; k < laps.wall_s.size(); ++k)
      cost.waiting_of_all_s.push_back(std::max(0.0F, laps.wall_s[k] - laps.cpu_s[k]));
  }
  return costs;
}

DeviceCost make_device_cost(const MeasuredStep& step) {
  DeviceCost cost;
  cost.name = step.name;
  cost.seconds = seconds_per_event(step.rate.rate());
  for (const StepCounter& counter : step.rate.counters())
    if (counter.name == step.name && counter.calls > 0) {
      const auto calls = static_cast<double>(counter.calls);
      cost.enqueue_s = counter.wall_s / calls;
      cost.bytes = static_cast<std::size_t>(static_cast<double>(counter.bytes) / calls);
    }
  return cost;
}

double line_cpu_s(const TrainingRate& rate) {
  double cpu_s = 0;
  for (const LaneResult& lane : rate.last().lanes)
    for (const StepCounter& counter : rate.counters())
      if (counter.calls > 0 &&
          std::find(lane.steps.begin(), lane.steps.end(), counter.name) != lane.steps.end())
        cpu_s += counter.cpu_s / static_cast<double>(counter.calls);
  return cpu_s;
}

std::vector<double> bytes_per_sample(const std::vector<StepCounter>& counters) {
  std::vector<double> bytes;
  for (const StepCounter& counter : counters)
    bytes.push_back(counter.calls == 0
                        ? 0
                        : static_cast<double>(counter.bytes) / static_cast<double>(counter.calls));
  return bytes;
}

std::vector<double> seconds_per_sample(const std::vector<StepLaps>& laps) {
  std::vector<double> totals;
  for (const StepLaps& step : laps) {
    totals.resize(std::max(totals.size(), step.wall_s.size()));
    for (std::size_t i = 0; i < step.wall_s.size(); ++i) totals[i] += step.wall_s[i];
  }
  return totals;
}

}  // namespace slipstream
