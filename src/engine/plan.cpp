#include "slipstream/engine/plan.h"

#include <algorithm>
#include <iterator>

#include "core/enum_names.h"
#include "core/text.h"
#include "loader/plan_limits.h"

namespace slipstream {
namespace {

using Names = std::vector<std::string>;

constexpr int kTrainingPriority = 2;
const char* const kAnyStage = "*";
constexpr const char* kModes[] = {"serial", "pipelined", "graph"};

constexpr EnumNames<Precision, 4> kPrecisions = {{
    {Precision::tf32, "tf32"},
    {Precision::fp32, "fp32"},
    {Precision::bf16, "bf16"},
    {Precision::fp16, "fp16"},
}};

std::string quoted(const std::string& name) { return "'" + name + "'"; }

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string lane_path(std::size_t lane) { return "schedule.lanes[" + std::to_string(lane) + "]"; }

void check_count(const std::string& path, std::size_t value, Names& problems,
                 std::size_t most = kMostOfAnything) {
  if (value >= 1 && value <= most) return;
  problems.push_back(path + " is " + std::to_string(value) + "; use 1 to " + std::to_string(most));
}

void check_mode(const Plan::Schedule& schedule, Names& problems) {
  if (!is_plan_mode(schedule.mode))
    problems.push_back("schedule.mode: " + unknown_plan(schedule.mode));
  if (schedule.mode == "serial" && schedule.lanes.size() > 1)
    problems.push_back("schedule.mode is serial but there are " +
                       std::to_string(schedule.lanes.size()) +
                       " lanes; put all steps on one lane, or use mode pipelined");
}

/// Returns the steps of all lanes that are steps of the pipeline, each once, in the plan's order.
Names check_lane_steps(const Plan::Schedule& schedule, const Names& steps, Names& problems) {
  Names known;
  for (std::size_t i = 0; i < schedule.lanes.size(); ++i) {
    const LanePlan& lane = schedule.lanes[i];
    if (lane.steps.empty())
      problems.push_back(lane_path(i) + " has no steps; remove the lane or give it steps");
    if (lane.priority < 0)
      problems.push_back(lane_path(i) + ".priority is " + std::to_string(lane.priority) +
                         "; use 0 (lowest) or more");
    for (const std::string& step : lane.steps) {
      if (!has(steps, step)) {
        problems.push_back(lane_path(i) + ".steps: " + unknown_name("step", step, steps));
      } else if (has(known, step)) {
        problems.push_back(lane_path(i) + ".steps: step " + quoted(step) +
                           " is listed twice; name each step once");
      } else {
        known.push_back(step);
      }
    }
  }
  return known;
}

void check_lanes(const Plan::Schedule& schedule, const Names& steps, Names& problems) {
  const std::size_t problems_before = problems.size();
  const Names found = check_lane_steps(schedule, steps, problems);
  for (const std::string& step : steps)
    if (!has(found, step))
      problems.push_back("schedule.lanes: step " + quoted(step) +
                         " is missing; put it on a lane (the steps are " + joined(steps) + ")");
  if (problems.size() == problems_before && found != steps)
    problems.push_back("schedule.lanes: the steps are in the order " + joined(found) +
                       "; lanes must list them in the pipeline's order: " + joined(steps));
}

void check_depth(const Plan::Schedule& schedule, Names& problems) {
  const std::size_t lanes = schedule.lanes.size();
  check_count("schedule.depth", schedule.depth, problems);
  if (schedule.depth >= 1 && schedule.depth < lanes)
    problems.push_back("schedule.depth is " + std::to_string(schedule.depth) + " but there are " +
                       std::to_string(lanes) + " lanes, and each needs a separate slot; use " +
                       std::to_string(lanes) + " or more");
}

void check_intra_op_threads(const Plan::Numerics& numerics, const Names& steps, DeviceKind device,
                            Names& problems) {
  const std::string path = "numerics.intra_op_threads";
  const std::string prefix = path + ".";
  Names keys = steps;
  keys.emplace_back(kAnyStage);
  for (const auto& [stage, threads] : numerics.intra_op_threads) {
    if (!has(keys, stage)) problems.push_back(path + ": " + unknown_name("stage", stage, keys));
    check_count(prefix + stage, threads, problems, kMostIntraOpThreads);
  }
  if (device != DeviceKind::cpu || numerics.intra_op_threads.contains(kAnyStage)) return;
  Names without;
  for (const std::string& step : steps)
    if (!numerics.intra_op_threads.contains(step)) without.push_back(step);
  if (!without.empty())
    problems.push_back(path + " has no value for " + joined(without) +
                       "; add \"*\" for every stage that is not named");
}

void check_wire(const Plan& plan, DeviceKind device, Names& problems) {
  const auto misplaced = [&](const std::string& path, const std::string& field, Wire wire,
                             const std::string& right) {
    problems.push_back(path + "." + field + ": " + std::string(to_string(wire)) +
                       (is_exact(wire) ? " is exact" : " changes values") + "; put it under " +
                       right);
  };
  for (const auto& [field, wire] : plan.schedule.loader.wire)
    if (!is_exact(wire)) misplaced("schedule.loader.wire", field, wire, "numerics.wire");
  for (const auto& [field, wire] : plan.numerics.wire) {
    if (is_exact(wire)) misplaced("numerics.wire", field, wire, "schedule.loader.wire");
    if (wire == Wire::jpeg && device == DeviceKind::cpu)
      problems.push_back("numerics.wire." + field +
                         " is jpeg, but only a GPU decodes files; leave out this wire format");
    if (plan.schedule.loader.wire.contains(field))
      problems.push_back("schedule.loader.wire and numerics.wire both name " + quoted(field) +
                         "; choose one format for it");
  }
}

void check_graphs(const Plan::Schedule& schedule, DeviceKind device, Names& problems) {
  if (schedule.graphs && device == DeviceKind::cpu)
    problems.emplace_back("schedule.graphs is on, but only a GPU has CUDA graphs; turn it off");
}

void check_numerics(const Plan& plan, DeviceKind device, Names& problems) {
  if (plan.numerics.deterministic && plan.numerics.cudnn_benchmark)
    problems.emplace_back(
        "numerics.cudnn_benchmark chooses algorithms by timing, which numerics.deterministic "
        "forbids; turn one of them off");
  if (device != DeviceKind::cpu) return;
  if (!plan.numerics.deterministic)
    problems.emplace_back(
        "numerics.deterministic is off, but CPU lanes are always deterministic; turn it on");
  if (plan.schedule.loader.pin_memory)
    problems.emplace_back(
        "schedule.loader.pin_memory is on, but only a GPU can use page-locked memory; turn it off");
}

}  // namespace

bool is_plan_mode(const std::string& name) {
  return std::find(std::begin(kModes), std::end(kModes), name) != std::end(kModes);
}

std::string unknown_plan(const std::string& name, std::vector<std::string> others) {
  others.insert(others.end(), std::begin(kModes), std::end(kModes));
  return unknown_name("plan", name, others);
}

Plan make_plan(const std::string& mode, const std::vector<std::string>& steps, DeviceKind device,
               const LoaderPlan& loader, const Plan::Numerics& numerics) {
  ensure(!steps.empty(), "a pipeline has device steps");
  if (!is_plan_mode(mode)) throw Refused(unknown_plan(mode));
  const bool serial = mode == "serial";
  const bool cpu = device == DeviceKind::cpu;
  Plan plan;
  plan.schedule.graphs = mode == "graph" && !cpu;
  // A CPU has no CUDA graphs, so the same program runs there without them.
  plan.schedule.mode = mode == "graph" && cpu ? "pipelined" : mode;
  plan.schedule.loader = loader;
  plan.schedule.loader.pin_memory = !cpu;
  plan.numerics = numerics;
  std::vector<LanePlan>& lanes = plan.schedule.lanes;
  if (serial) {
    lanes.push_back({.steps = steps});
  } else {
    for (const std::string& step : steps) lanes.push_back({.steps = {step}});
  }
  lanes.back().priority = kTrainingPriority;
  plan.schedule.depth = lanes.size() + (serial || cpu ? 0 : 1);
  plan.schedule.driver = Driver::threaded;
  plan.numerics.deterministic |= cpu;
  plan.numerics.cudnn_benchmark &= !plan.numerics.deterministic;
  return plan;
}

void join_next_lane(Plan& plan, const std::string& step) {
  std::vector<LanePlan>& lanes = plan.schedule.lanes;
  const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const LanePlan& each) {
    return !each.steps.empty() && each.steps.back() == step;
  });
  if (lane == lanes.end() || lane + 1 == lanes.end()) return;
  Names& next = (lane + 1)->steps;
  next.insert(next.begin(), lane->steps.begin(), lane->steps.end());
  lanes.erase(lane);
  --plan.schedule.depth;
}

std::vector<std::string> find_problems(const Plan& plan, const std::vector<std::string>& steps,
                                       DeviceKind device) {
  const Plan::Schedule& schedule = plan.schedule;
  Names problems;
  check_mode(schedule, problems);
  check_lanes(schedule, steps, problems);
  check_depth(schedule, problems);
  check_count("schedule.run_ahead", schedule.run_ahead, problems);
  check_count("schedule.loader.num_workers", schedule.loader.num_workers, problems);
  check_count("schedule.loader.prefetch_batches", schedule.loader.prefetch_batches, problems);
  check_graphs(schedule, device, problems);
  check_numerics(plan, device, problems);
  check_intra_op_threads(plan.numerics, steps, device, problems);
  check_wire(plan, device, problems);
  return problems;
}

void validate(const Plan& plan, const std::vector<std::string>& steps, DeviceKind device) {
  std::string message;
  for (const std::string& problem : find_problems(plan, steps, device)) message += "\n  " + problem;
  if (!message.empty()) throw Refused("this plan cannot be run:" + message);
}

WireFormats wire_formats(const Plan& plan) {
  WireFormats all = plan.schedule.loader.wire;
  all.insert(plan.numerics.wire.begin(), plan.numerics.wire.end());
  return all;
}

std::string_view to_string(Precision precision) { return enum_name(kPrecisions, precision); }

Precision precision_named(const std::string& name) {
  return enum_named(kPrecisions, "precision", name);
}

}  // namespace slipstream
