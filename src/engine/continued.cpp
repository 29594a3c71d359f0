#include "engine/continued.h"

#include <algorithm>

namespace slipstream {
namespace {

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Adds the counters of equal steps, in the order of `to`, and appends steps that `to` does not
/// have.
void add_counters(std::vector<StepCounter>& to, const std::vector<StepCounter>& from) {
  for (const StepCounter& counter : from) {
    const auto same = std::find_if(to.begin(), to.end(),
                                   [&](const StepCounter& c) { return c.name == counter.name; });
    same != to.end() ? same->add(counter) : to.push_back(counter);
  }
}

}  // namespace

void GraphCounts::add(const GraphCounts& other) {
  graphs += other.graphs;
  replays += other.replays;
  renewed += other.renewed;
  append(warnings, other.warnings);
}

void continue_with(RunResult& total, RunResult next) {
  for (double& end_s : next.step_end_s) end_s += total.wall_s;
  for (StepInput& input : next.inputs) input.taken_s += total.wall_s;
  for (LaneResult& lane : next.lanes)
    for (Interval& interval : lane.last_intervals) {
      interval.begin_s += total.wall_s;
      interval.end_s += total.wall_s;
    }
  add_counters(next.counters, total.counters);
  next.skipped.add(total.skipped);
  if (next.cache && total.cache) next.cache->add(*total.cache);
  if (next.disk_cache && total.disk_cache) next.disk_cache->add(*total.disk_cache);
  if (next.jpeg && total.jpeg) {
    next.jpeg->images += total.jpeg->images;
    next.jpeg->on_cpu += total.jpeg->on_cpu;
  }
  if (total.graphs) {
    GraphCounts graphs = *total.graphs;
    if (next.graphs) graphs.add(*next.graphs);
    next.graphs = std::move(graphs);
  }
  std::swap(total, next);
  std::swap(total.first_step, next.first_step);
  total.steps += next.steps;
  total.wall_s += next.wall_s;
  std::swap(total.losses, next.losses);
  append(total.losses, next.losses);
  std::swap(total.accuracies, next.accuracies);
  append(total.accuracies, next.accuracies);
  std::swap(total.inputs, next.inputs);
  append(total.inputs, next.inputs);
  std::swap(total.step_end_s, next.step_end_s);
  append(total.step_end_s, next.step_end_s);
}

}  // namespace slipstream
