#include "doctor/observed.h"

#include <numeric>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

Measured make_measured(double value, const char* unit) {
  return {value, 0.99 * value, 1.01 * value, unit, 16};
}

double compute_loader_rate(PipelineModel model, unsigned workers) {
  model.workers = workers;
  model.line_waiting_s = model.line_working_s = 0;
  return static_cast<double>(model.batch_size) / simulated_step_s(model);
}

double mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Returns the time of a sample in `step` while all workers run, which may share a lock or memory.
double wall_of_all(const PipelineModel& model, const PipelineModel::Step& step) {
  const double whole = mean(step.waiting_s) + mean(step.working_s);
  if (step.locked <= 0) return whole;
  return std::max(whole, model.workers / compute_loader_rate(model, model.workers));
}

HostStepCost make_cost(const PipelineModel& model, const PipelineModel::Step& step) {
  HostStepCost cost;
  cost.name = step.name;
  cost.group = step.group;
  for (std::size_t i = 0; i < step.waiting_s.size(); ++i) {
    cost.wall_s.push_back(step.waiting_s[i] + step.working_s[i]);
    cost.cpu_s.push_back(step.working_s[i]);
  }
  cost.bytes = 1 << 16;
  cost.wall_of_all_s = wall_of_all(model, step);
  const double slower =
      step.is_memory_bound ? std::max(1.0, model.workers / model.capacity.memory_streams) : 1;
  cost.cpu_of_all_s = mean(step.working_s) * slower;
  if (step.is_memory_bound) cost.wall_of_all_s += cost.cpu_of_all_s - mean(step.working_s);
  const auto waiting_s = static_cast<float>(cost.wall_of_all_s - cost.cpu_of_all_s);
  cost.waiting_of_all_s.assign(64, std::max(0.0F, waiting_s));
  return cost;
}

}  // namespace

PipelineModel::Step make_step(const std::string& name, Bottleneck group, double waiting_s,
                              double working_s) {
  PipelineModel::Step step;
  step.name = name;
  step.group = group;
  step.waiting_s = {static_cast<float>(waiting_s)};
  step.working_s = {static_cast<float>(working_s)};
  return step;
}

PipelineModel usual_model() {
  PipelineModel model;
  model.steps = {make_step("read", Bottleneck::read, 0, 1e-3),
                 make_step("decode", Bottleneck::decode, 0, 1e-3),
                 make_step("crop", Bottleneck::transforms, 0, 1e-3),
                 make_step("blur", Bottleneck::transforms, 0, 1e-3),
                 make_step("collate", Bottleneck::collate, 0, 1e-5)};
  model.workers = 4;
  model.batch_size = 32;
  model.slabs = 6;
  model.capacity = {8, 4};
  model.line_waiting_s = 0.1;
  return model;
}

PipelineModel article_model() {
  PipelineModel model;
  model.steps = {make_step("read", Bottleneck::read, 8.5e-3, 0),
                 make_step("decode", Bottleneck::decode, 0, 0),
                 make_step("crop", Bottleneck::transforms, 2.4e-3, 0),
                 make_step("mask", Bottleneck::transforms, 4.2e-3, 0),
                 make_step("color", Bottleneck::transforms, 2.5e-3, 0),
                 make_step("collate", Bottleneck::collate, 0, 1e-6)};
  model.workers = 4;
  model.batch_size = 256;
  model.slabs = 6;
  model.capacity = {2, 2};
  model.line_waiting_s = 0.31;
  return model;
}

Observations make_observations(const PipelineModel& model, double copy_s) {
  Observations observed;
  observed.batch_size = model.batch_size;
  observed.workers = model.workers;
  observed.slabs = model.slabs;
  observed.capacity = model.capacity;
  observed.line_cpu_s = model.line_working_s;
  observed.situation.cores = 8;
  observed.situation.samples = 1000;
  observed.situation.free_memory_bytes = std::uint64_t{1} << 33;
  observed.situation.last_fixed_step = "decode";
  observed.situation.plan.schedule.lanes = {{{"copy", "train"}, 0}};
  observed.situation.plan.schedule.loader.num_workers = model.workers;
  for (const auto& step : model.steps) observed.host.push_back(make_cost(model, step));
  observed.rate_of_one_worker = make_measured(compute_loader_rate(model, 1), "samples/s");
  observed.rate_of_all_workers =
      make_measured(compute_loader_rate(model, model.workers), "samples/s");
  const double line = model.line_waiting_s + model.line_working_s;
  const auto level = [&](std::string_view name, const std::string& after, double step_s) {
    observed.levels.push_back(
        {std::string(name), after, 4, make_measured(1 / step_s, "steps/s"), std::nullopt, "", ""});
  };
  level(kDeviceLevel, "copy", line - copy_s);
  level(kHostLevel, "collate", line);
  for (std::size_t i = model.steps.size() - 1; i > 0; --i) {
    const bool is_last = i + 1 == model.steps.size();
    level(is_last ? std::string(kProcessedLevel) : "after " + model.steps[i - 1].name,
          model.steps[i - 1].name, simulated_step_s(cut_after(model, i)));
  }
  level(kWholeLevel, "", simulated_step_s(model));
  return observed;
}

const Change* find(const Diagnosis& diagnosis, const std::string& id) {
  for (const Change& change : diagnosis.changes)
    if (change.id == id) return &change;
  return nullptr;
}

}  // namespace slipstream
