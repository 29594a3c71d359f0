#include <algorithm>
#include <limits>

#include "run/trainer_impl.h"
#include "slipstream/fork_join.h"

namespace slipstream {
namespace {

/// Of the forks that `module`, a stage called `stage`, is or holds.
void add_forks(const std::string& stage, const torch::nn::Module* module,
               std::vector<Gain>& gains) {
  if (module == nullptr) return;
  for (const auto& item : module->named_modules()) {
    const auto* fork = dynamic_cast<const ForkJoinImpl*>(item.value().get());
    if (fork == nullptr) continue;
    gains.push_back(fork->gain());
    gains.back().of = item.key().empty() ? stage : stage + "." + item.key();
  }
}

/// Host seconds behind one batch, shared among the workers; 0 where nothing was loaded.
double loading_s(const RunResult& result, std::size_t host_steps, std::size_t batch_size) {
  if (host_steps == 0) return 0;
  double wall_s = 0;
  for (std::size_t i = 0; i < host_steps; ++i) wall_s += result.counters[i].wall_s;
  const std::uint64_t samples = result.counters[host_steps - 1].calls;
  if (samples == 0) return 0;
  return wall_s / static_cast<double>(samples) * static_cast<double>(batch_size) /
         result.plan.schedule.loader.workers;
}

/// A batch's time on the lane that takes longest, in the middle of those that are remembered.
double step_s(const RunResult& result) {
  double longest_s = 0;
  for (const LaneResult& lane : result.lanes) {
    std::vector<double> durations_s;
    for (const Interval& one : lane.last_intervals) durations_s.push_back(one.end_s - one.begin_s);
    if (!durations_s.empty())
      longest_s = std::max(longest_s, median_interval(durations_s, "s").value);
  }
  return longest_s;
}

Measured scaled(Measured rate, double by) {
  return {rate.value * by, rate.low * by, rate.high * by, "1", rate.n};
}

}  // namespace

std::vector<Gain> Trainer::Impl::gains(const RunResult& result, std::size_t host_steps) const {
  std::vector<Gain> gains;
  for (const auto& stage : pipeline.stages())
    add_forks(stage.name, stage.stage.module.get(), gains);
  add_forks(pipeline.train_name(), pipeline.train_stage().module.get(), gains);

  const double load = loading_s(result, host_steps, pipeline.options().batch_size);
  const double step = step_s(result);
  if (load <= 0 || step <= 0 || result.steps_per_second.n == 0) return gains;
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  Gain& loading = gains.emplace_back();
  loading.of = "loading";
  loading.predicted = {(load + step) / std::max(load, step), unknown, unknown, "1", 1};
  loading.measured = scaled(result.steps_per_second, load + step);
  return gains;
}

}  // namespace slipstream
