#include "engine/steady_rate.h"

#include <algorithm>
#include <utility>

namespace slipstream {
namespace {

/// A run is conclusive if it has this many times more steps than batches may be ready.
constexpr std::size_t kTelling = 3;
/// Number of ready batches at which the loader counts as too slow.
constexpr std::size_t kDrained = 1;

bool found_used_up(const StepInput& input) { return input.filled <= kDrained; }

/// Returns the number of batches that had been taken from the loader, but not processed, when a
/// step ended.
std::size_t on_the_way(const std::vector<StepInput>& inputs, const std::vector<double>& step_end_s,
                       std::size_t step) {
  std::size_t last = step;
  while (last + 1 < inputs.size() && inputs[last + 1].taken_s < step_end_s[step]) ++last;
  return last - step;
}

/// Returns the last step, not before `first`, whose count is not cut off by the end of the run: no
/// batches are taken after the last one, so later counts are too small.
std::optional<std::size_t> last_followed(const std::vector<StepInput>& inputs,
                                         const std::vector<double>& step_end_s, std::size_t first) {
  for (std::size_t step = std::min(inputs.size(), step_end_s.size()); step-- > first;)
    if (step + on_the_way(inputs, step_end_s, step) + 1 < inputs.size()) return step;
  return std::nullopt;
}

/// Returns the median of the counts of the later half of the steps from `first` to `last`. The
/// later half is used because the earlier steps may still process batches that were taken before.
std::size_t usually_on_the_way(const std::vector<StepInput>& inputs,
                               const std::vector<double>& step_end_s, std::size_t first,
                               std::size_t last) {
  std::vector<std::size_t> counts;
  for (std::size_t step = first + (last - first) / 2; step <= last; ++step)
    counts.push_back(on_the_way(inputs, step_end_s, step));
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  return *middle;
}

/// Returns how many more batches than usual had been taken before step `first`. They may have been
/// the input of that step and of the following ones.
std::size_t taken_ahead(const std::vector<StepInput>& inputs, const std::vector<double>& step_end_s,
                        std::size_t first) {
  // Counted at the end of the step before, because these batches were available when step `first`
  // began.
  const std::size_t taken = on_the_way(inputs, step_end_s, first - 1);
  const auto last = last_followed(inputs, step_end_s, first);
  if (!last) return taken;
  return taken - std::min(taken, usually_on_the_way(inputs, step_end_s, first, *last));
}

}  // namespace

std::size_t first_steady_step(const std::vector<StepInput>& inputs,
                              const std::vector<double>& step_end_s, std::size_t lanes) {
  // The first steps fill the lanes, so their durations are not those of the steady state.
  const std::size_t filled = lanes + 1;
  const auto drained = std::find_if(inputs.begin(), inputs.end(), found_used_up);
  if (drained == inputs.end()) return filled;
  const std::size_t first =
      std::max(filled, static_cast<std::size_t>(drained - inputs.begin()) + 1);
  // At `drained` the queue was used up, but the lanes may still hold batches from it. So the steady
  // state begins when no more batches than usual are on the way, if enough steps remain then.
  const auto last = last_followed(inputs, step_end_s, first);
  if (!last) return first;
  const std::size_t usual = usually_on_the_way(inputs, step_end_s, first, *last);
  for (std::size_t later = first; later + kFewestSteadySteps <= *last + 1; ++later)
    if (on_the_way(inputs, step_end_s, later - 1) <= usual) return later;
  return first;
}

bool is_used_up(const std::vector<StepInput>& inputs, std::size_t first) {
  const auto from = inputs.begin() + static_cast<std::ptrdiff_t>(std::min(first, inputs.size()));
  return std::any_of(from, inputs.end(), found_used_up);
}

double spared_steps(const std::vector<StepInput>& inputs, const std::vector<double>& step_end_s,
                    std::size_t first, std::size_t partly_filled_batches) {
  if (first >= inputs.size()) return 0;
  const std::size_t before = inputs[first].filled, after = inputs.back().filled;
  const double lost = before > after ? static_cast<double>(before - after) : 0;
  if (is_used_up(inputs, first))
    return lost + static_cast<double>(taken_ahead(inputs, step_end_s, first));
  const auto fullest =
      std::max_element(inputs.begin(), inputs.end(),
                       [](const StepInput& a, const StepInput& b) { return a.filled < b.filled; });
  const bool is_full = std::min(before, after) == fullest->filled;
  return is_full ? lost : lost + static_cast<double>(partly_filled_batches);
}

double draining_factor(const std::vector<StepInput>& inputs, std::size_t first) {
  /// Fewest steps in a third, because the number of ready batches varies by one or two.
  constexpr std::size_t kThird = 4;
  const std::size_t third = inputs.size() > first ? (inputs.size() - first) / 3 : 0;
  if (third < kThird) return 1;
  const auto mean_filled = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t i = from; i < from + third; ++i) sum += static_cast<double>(inputs[i].filled);
    return sum / static_cast<double>(third);
  };
  const double fallen = mean_filled(first) - mean_filled(inputs.size() - third);
  const auto steps = static_cast<double>(inputs.size() - first - third);
  // While the queue drains, it provides `fallen` of the `steps` batches, so the loader alone would
  // need steps / (steps - fallen) times as long.
  return fallen >= 1 && fallen < steps ? steps / (steps - fallen) : 1;
}

bool fills_batches(const RunResult& result, const std::optional<Cut>& cut) {
  return !result.inputs.empty() && !(cut && cut->after == "collate");
}

std::size_t batches_ahead(const Plan::Schedule& schedule) {
  return schedule.loader.prefetch_batches + schedule.depth + schedule.run_ahead;
}

std::size_t partly_filled_batches(const RunResult& result, std::size_t batch_size) {
  return 1 + (result.plan.schedule.loader.num_workers - 1) / batch_size;
}

SteadyRate::SteadyRate(std::optional<Cut> cut) : cut_(std::move(cut)) {
  if (cut_) by_item_.resize(cut_->items);
}

bool SteadyRate::is_conclusive_run(const RunResult& result, std::size_t first) const {
  if (!fills_batches(result, cut_)) return true;
  if (is_used_up(result.inputs, first) && taken_ahead(result.inputs, result.step_end_s, first) == 0)
    return true;
  // With many more steps than batches that could have been prefetched, those batches hardly change
  // the rate.
  const std::size_t ahead = 1 + batches_ahead(result.plan.schedule);
  return spared_steps(result.inputs, result.step_end_s, first, 0) <= 0 ||
         result.step_end_s.size() >= first + kTelling * ahead;
}

bool SteadyRate::add(const RunResult& result, std::size_t batch_size) {
  const std::size_t first =
      first_steady_step(result.inputs, result.step_end_s, result.lanes.size());
  if (first >= result.step_end_s.size()) return false;
  add_from(first, result, batch_size);
  return true;
}

void SteadyRate::add_from(std::size_t first, const RunResult& result, std::size_t batch_size) {
  // Steps of inconclusive runs are dropped as soon as there is a conclusive run: they may be too
  // fast, because they used prefetched batches.
  const bool is_conclusive_now = is_conclusive_run(result, first);
  if (is_conclusive_ && !is_conclusive_now) return;
  if (is_conclusive_now && !is_conclusive_) {
    durations_s_.clear();
    by_item_.assign(by_item_.size(), {});
    spared_steps_ = 0;
  }
  is_conclusive_ = is_conclusive_now;
  double factor = 1;
  if (fills_batches(result, cut_)) {
    factor = draining_factor(result.inputs, first);
    const std::size_t begun = partly_filled_batches(result, batch_size);
    const bool drains = factor > 1;  // the factor already accounts for the lost batches
    spared_steps_ += drains && !is_used_up(result.inputs, first)
                         ? static_cast<double>(begun)
                         : spared_steps(result.inputs, result.step_end_s, first, begun);
  }
  for (std::size_t i = first; i < result.step_end_s.size(); ++i) {
    const double passed = factor * (result.step_end_s[i] - result.step_end_s[i - 1]);
    durations_s_.push_back(passed);
    if (cut_) by_item_[i % by_item_.size()].push_back(passed);
  }
}

Measured SteadyRate::rate() const {
  Measured rate = rate_from_durations(durations_s_, "steps/s");
  const double hidden = spared_steps_ / static_cast<double>(durations_s_.size());
  // If all hidden steps had to wait, the rate would be lower by their share.
  rate.low = std::min(rate.low, rate.value * std::max(0.0, 1 - hidden));
  return rate;
}

}  // namespace slipstream
