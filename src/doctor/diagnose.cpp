#include "slipstream/doctor/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "doctor/model_parts.h"
#include "doctor/wording.h"

namespace slipstream {
namespace {

constexpr double kWorthNaming = 0.03;     ///< smallest gain of a bottleneck
constexpr double kMostUnexplained = 0.5;  ///< share of the waiting time without a known cause
constexpr double kMostSpread = 0.2;       ///< largest counted spread of simulations
constexpr double kLeastWidth = 0.02;      ///< smallest half of a prediction's interval / value

/// A possible bottleneck. Each part that the user named is a bottleneck on its own.
struct Suspect {
  Bottleneck bottleneck;
  std::string part = {};  ///< the name of the step for Bottleneck::part

  bool contains(const PipelineModel::Step& step) const {
    return step.group == bottleneck && (part.empty() || step.name == part);
  }
};

/// Removes a bottleneck's cost from a model.
void take_out(const Suspect& suspect, const Observations& observed, PipelineModel& model) {
  for (PipelineModel::Step& step : model.steps) {
    if (suspect.contains(step)) make_free(step);
    if (suspect.bottleneck == Bottleneck::lock_contention) step.locked = 0;
    if (suspect.bottleneck == Bottleneck::memory_bandwidth) step.is_memory_bound = false;
  }
  if (suspect.bottleneck == Bottleneck::copy) take_copy_out(observed, model);
}

struct BottleneckGain {
  Suspect suspect;
  double gain = 1;
  double cost_s = 0;  ///< seconds for a sample in one worker

  bool operator<(const BottleneckGain& other) const {
    return std::tie(other.gain, other.cost_s) < std::tie(gain, cost_s);
  }
};

/// Finds the bottlenecks of the input. Contention between workers is removed from the model first,
/// because otherwise it would hide the costs of the steps themselves.
class Search {
 public:
  explicit Search(const Observations& observed, const PipelineModel& model)
      : observed_(observed), now_(mean_step_s(model)), base_(model) {
    for (const Bottleneck group : {Bottleneck::read, Bottleneck::decode, Bottleneck::transforms,
                                   Bottleneck::collate, Bottleneck::copy})
      groups_.push_back({group});
    for (const PipelineModel::Step& step : model.steps)
      if (step.group == Bottleneck::part) groups_.push_back({step.group, step.name});
  }

  /// Returns the bottlenecks, largest gain first. Call it once.
  std::vector<BottleneckGain> suspects() {
    std::vector<BottleneckGain> found;
    for (const Bottleneck contention :
         {Bottleneck::lock_contention, Bottleneck::memory_bandwidth}) {
      const double gain = gain_without({contention}, base_);
      if (gain < 1 + kWorthNaming) continue;
      found.push_back({{contention}, gain});
      take_out({contention}, observed_, base_);
    }
    const double base = mean_step_s(base_);
    for (const Suspect& group : groups_) {
      const double gain = base * gain_without_group(group) / now_;
      if (gain >= 1 + kWorthNaming) found.push_back({group, gain, group_cost(group)});
    }
    std::stable_sort(found.begin(), found.end());
    return found.empty() ? together() : found;
  }

 private:
  double gain_without(const Suspect& suspect, PipelineModel model) const {
    take_out(suspect, observed_, model);
    const double then = mean_step_s(model);
    return then > 0 ? now_ / then : 1;
  }

  /// Like gain_without(), for a group of steps. If training is the limit without any one of several
  /// groups, these groups gain the same, and differences between their simulations are chance. The
  /// gain is therefore computed from the line's time.
  double gain_without_group(const Suspect& group) const {
    PipelineModel model = base_;
    take_out(group, observed_, model);
    const double line_s = model.line_waiting_s + model.line_working_s;
    const double then = mean_step_s(model);
    const double limit = is_fed(model, then) ? line_s : then;
    return limit > 0 ? now_ / limit : 1;
  }

  double group_cost(const Suspect& group) const {
    double cost_s = 0;
    for (const PipelineModel::Step& step : base_.steps)
      if (group.contains(step))
        cost_s += compute_mean(step.waiting_s) + compute_mean(step.working_s);
    return cost_s;
  }

  /// If no single group gains, several are equally slow. Returns the pair with the largest gain.
  std::vector<BottleneckGain> together() const {
    std::vector<BottleneckGain> best;
    for (auto first = groups_.begin(); first != groups_.end(); ++first)
      for (auto second = first + 1; second != groups_.end(); ++second) {
        PipelineModel model = base_;
        take_out(*first, observed_, model);
        const double gain = gain_without(*second, model);
        if (gain >= 1 + kWorthNaming && (best.empty() || gain > best.front().gain))
          best = {{*first, gain, group_cost(*first)}, {*second, gain, group_cost(*second)}};
      }
    std::stable_sort(best.begin(), best.end());
    return best;
  }

  const Observations& observed_;
  double now_;
  PipelineModel base_;
  std::vector<Suspect> groups_;
};

Measured of_values(std::vector<float> values, double by, std::string unit) {
  if (values.empty()) return {0, 0, 0, std::move(unit), 0};
  std::vector<double> scaled(values.begin(), values.end());
  for (double& value : scaled) value *= by;
  Measured mean = mean_interval(scaled, std::move(unit));
  mean.low = std::max(0.0, mean.low);
  return mean;
}

double percentile_99(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1, values.size() * 99 / 100);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

std::vector<CostRow> cost_rows(const Observations& observed, const PipelineModel& model,
                               double model_error) {
  std::vector<CostRow> rows;
  for (std::size_t i = 0; i < observed.host.size(); ++i) {
    const HostStepCost& cost = observed.host[i];
    CostRow row;
    row.name = cost.name;
    row.group = cost.group;
    row.wall_ms = of_values(cost.wall_s, 1e3, "ms");
    row.cpu_ms = of_values(cost.cpu_s, 1e3, "ms");
    row.bytes = cost.bytes;
    row.variation = compute_variation({cost.wall_s.begin(), cost.wall_s.end()});
    row.p99_ms = 1e3 * percentile_99(cost.wall_s);
    row.locked = model.steps[i].locked;
    row.is_memory_bound = model.steps[i].is_memory_bound;
    PipelineModel without = model;
    make_free(without.steps[i]);
    row.without = predicted_rate(observed, model, without, model_error);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Largest enqueue time of a lane, whose steps one thread enqueues one after the other.
double longest_enqueue_s(const Observations& observed) {
  double longest_s = 0;
  for (const LanePlan& lane : observed.situation.plan.schedule.lanes) {
    double lane_s = 0;
    for (const DeviceCost& cost : observed.device)
      if (std::find(lane.steps.begin(), lane.steps.end(), cost.name) != lane.steps.end())
        lane_s += cost.enqueue_s;
    longest_s = std::max(longest_s, lane_s);
  }
  return longest_s;
}

/// Sets the verdict if input keeps up.
void judge_device(const Observations& observed, Diagnosis& diagnosis) {
  const double step = 1 / diagnosis.ceiling.value;
  const double enqueue_s = longest_enqueue_s(observed);
  const auto& use = observed.utilization;
  if (observed.situation.on_gpu && enqueue_s > 0.9 * step) {
    diagnosis.verdict = Bottleneck::launch_overhead;
  } else if (observed.situation.on_gpu && use.sm_activity && *use.sm_activity < 0.5) {
    diagnosis.verdict = Bottleneck::none;
  } else {
    diagnosis.verdict = Bottleneck::device;
  }
}

/// Relative noise of a prediction if the loader does not keep up. It consists of the noise of the
/// loader's costs and of the line, each weighted by how much the step's time (`step_s`) depends on
/// it. To find the weights, the loader's costs are increased a little.
double estimate_noise(const Observations& observed, const PipelineModel& then, double step_s) {
  constexpr double kMore = 0.05;
  const double whole = half_width(*level_rate(observed, kWholeLevel));
  PipelineModel slower = then;
  scale_costs(slower, 1 + kMore);
  const double more = mean_step_s(slower) / step_s - 1;
  const double of_loader = std::clamp(more / kMore, 0.0, 1.0);
  const double alone = std::min(1.0, half_width(observed.rate_of_all_workers));
  // The loader's costs are fitted to both rates, so their errors combine like those of a weighted
  // mean.
  const double loader = whole * alone / std::max(1e-9, std::hypot(whole, alone));
  const auto fed = host_rate(observed);
  return std::hypot(of_loader * loader, (1 - of_loader) * (fed ? half_width(*fed) : whole));
}

/// Returns the rate that the fitted costs explain, with an interval for their noise.
Measured explained_rate(const Observations& observed, const PipelineModel& model) {
  const Measured step_s = mean_interval(simulated_steps_s(model), "s");
  if (step_s.value <= 0) return {0, 0, 0, "steps/s", 0};
  const double half =
      std::hypot(std::hypot(estimate_noise(observed, model, step_s.value), kLeastWidth),
                 std::min(kMostSpread, half_width(step_s)));
  const double rate = 1 / step_s.value;
  return {rate, rate * std::max(0.0, 1 - half), rate * (1 + half), "steps/s", 1};
}

/// Whether the costs of the parts leave most of the time unexplained in which the device waits. The
/// intervals of the explained and of the measured rate must exclude each other by this time.
bool is_unexplained(const Observations& observed, const PipelineModel& model,
                    const Diagnosis& diagnosis) {
  const Measured explained = explained_rate(observed, model), &rate = diagnosis.rate;
  if (explained.n == 0 || explained.low <= 0 || rate.low <= 0) return false;
  const double apart_s =
      std::max(1 / rate.high - 1 / explained.low, 1 / explained.high - 1 / rate.low);
  const double waiting_s = 1 / rate.value - 1 / diagnosis.ceiling.value;
  return apart_s > kMostUnexplained * waiting_s;
}

/// Returns why the values do not allow a verdict, or "" if they do.
std::string lacking(const Observations& observed, const PipelineModel& model,
                    const Diagnosis& diagnosis) {
  if (diagnosis.ceiling.n == 0 || diagnosis.rate.n == 0)
    return "the ceiling or the whole pipeline could not be measured";
  const bool is_wide =
      half_width(diagnosis.ceiling) > kWidest || half_width(diagnosis.rate) > kWidest;
  if (is_wide && diagnosis.share.high >= kStarved)
    return "the intervals are too wide: give it more time " + budget_option(observed);
  if (diagnosis.share.low < kStarved - 0.1 && diagnosis.share.high > kStarved + 0.03)
    return "the intervals do not show whether the device waits: give it more time " +
           budget_option(observed);
  if (diagnosis.share.high < kStarved && is_unexplained(observed, model, diagnosis))
    return "the costs of the parts do not explain the measured rate: there is another, unknown "
           "cost";
  return {};
}

/// Whether a temporary slowdown of the machine may be the only cause of the verdict. Contention is
/// found from small differences between rates, so a slowdown always may be its cause.
bool may_come_from(const Contradiction& found, const Diagnosis& diagnosis) {
  const Bottleneck verdict = diagnosis.verdict;
  if (verdict == Bottleneck::lock_contention || verdict == Bottleneck::memory_bandwidth)
    return true;
  return diagnosis.bottlenecks.empty() || diagnosis.share.high * (1 + found.by) >= kStarved;
}

/// Withdraws the verdict if levels contradict each other by enough to explain it.
void doubt(const Observations& observed, Diagnosis& diagnosis) {
  const std::optional<Contradiction> found = find_contradiction(observed);
  if (!found) return;
  const std::string changed = reason_for(*found);
  if (may_come_from(*found, diagnosis)) {
    diagnosis.verdict = Bottleneck::not_enough_evidence;
    diagnosis.bottlenecks.clear();
    diagnosis.parts.clear();
    diagnosis.reason = changed + "; end other programs on the machine, or give it more time " +
                       budget_option(observed);
  } else {
    diagnosis.reason += "; but " + changed;
  }
}

void judge(const Observations& observed, const PipelineModel& model, Diagnosis& diagnosis) {
  diagnosis.reason = lacking(observed, model, diagnosis);
  if (!diagnosis.reason.empty()) return;
  // If the interval of the share contains 1, it is not certain that the device waits at all.
  if (diagnosis.share.value >= kStarved || diagnosis.share.high >= 1) {
    judge_device(observed, diagnosis);
  } else {
    for (const BottleneckGain& found : Search(observed, model).suspects()) {
      diagnosis.bottlenecks.push_back(found.suspect.bottleneck);
      if (!found.suspect.part.empty()) diagnosis.parts.push_back(found.suspect.part);
    }
    if (diagnosis.bottlenecks.empty()) {
      diagnosis.reason = "the device waits, and no single cost explains it";
      return;
    }
    diagnosis.verdict = diagnosis.bottlenecks.front();
  }
  diagnosis.reason = reason_for(diagnosis, observed);
  doubt(observed, diagnosis);
}

}  // namespace

Measured predicted_rate(const Observations& observed, const PipelineModel& now,
                        const PipelineModel& then, double model_error) {
  const auto rate = level_rate(observed, kWholeLevel);
  Measured predicted{0, 0, 0, "steps/s", 0};
  if (!rate || rate->value <= 0) return predicted;
  const Measured step_s = mean_interval(simulated_steps_s(then), "s");
  if (step_s.value <= 0) return predicted;
  const double now_s = mean_step_s(now);
  const bool is_fed_now = is_fed(now, now_s);
  const double line_s = then.line_waiting_s + then.line_working_s;
  predicted.value = 1 / step_s.value;
  // If the loader keeps up, scaling the measured rate cancels the model's errors. No rate exceeds
  // the line's.
  if (is_fed_now) predicted.value = rate->value * now_s / step_s.value;
  if (line_s > 0) predicted.value = std::min(predicted.value, 1 / line_s);
  const double spread = std::min(kMostSpread, half_width(step_s));
  const double noise =
      is_fed_now ? half_width(*rate) : estimate_noise(observed, then, step_s.value);
  // The errors are independent, so they add in quadrature.
  const double half =
      std::hypot(std::hypot(noise, spread), std::hypot(kLeastWidth, 1.5 * model_error));
  predicted.low = predicted.value * std::max(0.0, 1 - half);
  predicted.high = predicted.value * (1 + half);
  predicted.n = rate->n;
  return predicted;
}

void take_copy_out(const Observations& observed, PipelineModel& model) {
  const auto device = level_rate(observed, kDeviceLevel);
  const auto host = host_rate(observed);
  if (!device || !host || device->value <= 0 || host->value <= 0) return;
  const double less = std::max(0.0, 1 / host->value - 1 / device->value);
  model.line_waiting_s = std::max(0.0, model.line_waiting_s - less);
}

ShareGate judge_share(const Diagnosis& diagnosis, double least) {
  const Measured& share = diagnosis.share;
  if (share.n == 0) return ShareGate::undecided;
  if (share.high < least) return ShareGate::fails;
  const bool is_known = diagnosis.verdict != Bottleneck::not_enough_evidence;
  const bool passes = share.low >= least || (is_known && share.value >= least);
  return passes ? ShareGate::passes : ShareGate::undecided;
}

Diagnosis diagnose(const Observations& observed) {
  Diagnosis diagnosis;
  diagnosis.model = std::make_shared<const PipelineModel>(fitted_model(observed));
  const PipelineModel& model = *diagnosis.model;
  diagnosis.model_error = compute_model_error(observed, model);
  diagnosis.ceiling = level_rate(observed, kDeviceLevel).value_or(Measured{0, 0, 0, "steps/s", 0});
  diagnosis.rate = level_rate(observed, kWholeLevel).value_or(Measured{0, 0, 0, "steps/s", 0});
  diagnosis.share = ratio(diagnosis.rate, diagnosis.ceiling);
  if (diagnosis.ceiling.n > 0 && !model.steps.empty())
    diagnosis.cores_needed = cores_needed(model, diagnosis.ceiling.value, observed.situation.cores);
  judge(observed, model, diagnosis);
  diagnosis.costs = cost_rows(observed, model, diagnosis.model_error);
  diagnosis.changes = changes_for(observed, model, diagnosis.model_error);
  rank_changes(diagnosis);
  return diagnosis;
}

}  // namespace slipstream
