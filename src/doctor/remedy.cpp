#include <algorithm>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

std::vector<std::string> list_steps(const Plan& plan) {
  std::vector<std::string> steps;
  for (const LanePlan& lane : plan.schedule.lanes)
    steps.insert(steps.end(), lane.steps.begin(), lane.steps.end());
  return steps;
}

/// Adds workers if the applied changes gain more with them. A change to fewer workers is respected.
void add_workers(const Observations& observed, PipelineModel& then, Remedy& remedy) {
  if (then.workers < observed.workers) return;
  PipelineModel more = then;
  more.workers = enough_workers(then);
  if (remedy.changes.empty() || more.workers <= then.workers) return;
  if (simulated_step_s(then) < kLeastGain * simulated_step_s(more)) return;
  then = more;
  remedy.plan.schedule.loader.num_workers = more.workers;
  const auto& ids = remedy.changes;
  if (std::find(ids.begin(), ids.end(), "num_workers") == ids.end())
    remedy.changes.emplace_back("num_workers");
}

}  // namespace

void pipeline_lanes(Plan& plan, bool on_gpu) {
  const Plan made =
      make_plan("pipelined", list_steps(plan), on_gpu ? DeviceKind::cuda : DeviceKind::cpu,
                plan.schedule.loader, plan.numerics);
  plan.schedule.mode = made.schedule.mode;
  plan.schedule.lanes = made.schedule.lanes;
  plan.schedule.depth = made.schedule.depth;
}

void put_transforms_on_device(Plan& plan, const std::string& first) {
  constexpr const char* kAugment = "augment";
  std::vector<LanePlan>& lanes = plan.schedule.lanes;
  plan.schedule.loader.on_device = first;
  std::vector<std::string>& copying = lanes.front().steps;
  const bool has_copy_alone = copying.size() == 1 && lanes.size() > 1;
  if (!has_copy_alone) {
    copying.insert(copying.begin() + 1, kAugment);
  } else if (lanes[1].steps.front() == "mix") {
    lanes[1].steps.insert(lanes[1].steps.begin(), kAugment);
  } else {
    lanes.insert(lanes.begin() + 1, LanePlan{{kAugment}, 0});
    ++plan.schedule.depth;
  }
}

/// Whether a loader accepts the plan's cache, which must not be after a step that runs on the
/// device.
bool has_possible_cache(const Plan& plan, const Observations& observed) {
  const LoaderPlan& loader = plan.schedule.loader;
  if (!loader.cache || loader.on_device.empty()) return true;
  for (const HostStepCost& step : observed.host) {
    if (step.name == loader.on_device) return false;
    if (step.name == loader.cache->after) return true;
  }
  return false;
}

Remedy find_remedy(const Observations& observed, const Diagnosis& diagnosis) {
  const PipelineModel& now = *diagnosis.model;
  PipelineModel then = now;
  Remedy remedy{observed.situation.plan, {}, diagnosis.rate};
  std::vector<const Change*> left;
  for (const Change& change : diagnosis.changes)
    if (change.apply) left.push_back(&change);
  // If a cache gains about the same as another change, the latter is tried first and needs no
  // memory.
  std::stable_partition(left.begin(), left.end(),
                        [](const Change* change) { return change->id != "cache"; });
  double step_s = simulated_step_s(now);
  while (!left.empty()) {
    std::size_t best = left.size();
    double best_s = step_s / kLeastGain;
    for (std::size_t i = 0; i < left.size(); ++i) {
      PipelineModel tried = then;
      Plan plan = remedy.plan;
      left[i]->model(tried);
      left[i]->apply(plan);
      if (!has_possible_cache(plan, observed)) continue;
      const double s = simulated_step_s(tried);
      const bool is_better = best == left.size() ? s < best_s : s < best_s / kLeastGain;
      if (is_better) best_s = s, best = i;
    }
    if (best == left.size()) break;
    left[best]->apply(remedy.plan);
    left[best]->model(then);
    remedy.changes.push_back(left[best]->id);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    step_s = best_s;
  }
  add_workers(observed, then, remedy);
  if (!remedy.changes.empty())
    remedy.predicted = predicted_rate(observed, now, then, diagnosis.model_error);
  return remedy;
}

}  // namespace slipstream
