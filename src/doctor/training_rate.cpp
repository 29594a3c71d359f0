#include "doctor/training_rate.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 40;
constexpr std::size_t kFewestDurations = 4;
constexpr int kTries = 3;
constexpr std::size_t kDrained = 1;  ///< batches that lie ready where the loader is behind

void add_to(std::vector<StepCounter>& totals, const std::vector<StepCounter>& more) {
  if (totals.empty()) totals.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    totals[i].name = more[i].name;
    totals[i].add(more[i]);
  }
}

}  // namespace

std::size_t first_steady_step(const std::vector<StepInput>& inputs, std::size_t lanes) {
  const std::size_t filled = lanes + 1;
  const auto drained = std::find_if(inputs.begin(), inputs.end(), [](const StepInput& input) {
    return input.filled <= kDrained;
  });
  if (drained == inputs.end()) return filled;
  return std::max(filled, static_cast<std::size_t>(drained - inputs.begin()) + 1);
}

double draining_factor(const std::vector<StepInput>& inputs, std::size_t first) {
  constexpr std::size_t kThird = 4;  ///< steps at least, for depths swing by one or two
  const std::size_t third = inputs.size() > first ? (inputs.size() - first) / 3 : 0;
  if (third < kThird) return 1;
  const auto mean_filled = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t i = from; i < from + third; ++i) sum += static_cast<double>(inputs[i].filled);
    return sum / static_cast<double>(third);
  };
  const double fallen = mean_filled(first) - mean_filled(inputs.size() - third);
  const auto steps = static_cast<double>(inputs.size() - first - third);
  return fallen >= 1 && fallen < steps ? steps / (steps - fallen) : 1;
}

TrainingRate::TrainingRate(Plan plan, std::optional<Cut> cut, std::string last_step)
    : plan_(std::move(plan)), cut_(std::move(cut)), last_step_(std::move(last_step)) {
  if (cut_) by_item_.resize(cut_->items);
}

void TrainingRate::measure(Trainer& trainer, double seconds, const std::function<bool()>& stop) {
  const auto stopped = [&] { return stop && stop(); };
  if (plan_.schedule.loader.cache && !cut_) fill_cache(trainer, stop);
  const std::size_t before = durations_s_.size();
  std::size_t least = plan_.schedule.lanes.size() + 1 + kFewestDurations;
  for (int i = 0; i < kTries && durations_s_.size() == before && !stopped(); ++i) {
    std::size_t entered = 0;
    std::optional<Clock::time_point> start;
    RunOptions options;
    options.steps = kMostSteps;
    options.cut = cut_;
    options.last_step = last_step_;
    options.digest = false;
    options.check_cache = cut_ && cut_->after == "copy";
    std::size_t done = 0;
    options.progress = [&](const Progress& progress) { done = progress.step; };
    options.stop = [&] {
      if (!start) start = Clock::now();
      const double passed = std::chrono::duration<double>(Clock::now() - *start).count();
      const double on_the_way = static_cast<double>(entered - done) * passed /
                                static_cast<double>(std::max<std::size_t>(1, done));
      return stopped() || (entered++ >= least && passed + on_the_way >= seconds);
    };
    last_ = trainer.run(plan_, options);
    keep(last_);
    least += 2 * plan_.schedule.loader.prefetch + 2;
  }
}

/// The loader of this run is the next one's.
void TrainingRate::fill_cache(Trainer& trainer, const std::function<bool()>& stop) {
  is_cold_ = true;
  if (fill_s_ <= 0) return;
  const auto start = Clock::now();
  RunOptions options;
  options.steps =
      1 + trainer.pipeline().dataset()->size() / trainer.pipeline().options().batch_size;
  options.digest = false;
  options.stop = [&] {
    return (stop && stop()) ||
           std::chrono::duration<double>(Clock::now() - start).count() > fill_s_;
  };
  const RunResult result = trainer.run(plan_, options);
  is_cold_ = result.interrupted && result.cache && result.cache->is_filling;
}

void TrainingRate::keep(const RunResult& result) {
  add_to(counters_, result.counters);
  const std::size_t first = first_steady_step(result.inputs, result.lanes.size());
  const double factor = draining_factor(result.inputs, first);
  for (std::size_t i = first; i < result.step_end_s.size(); ++i) {
    const double passed = factor * (result.step_end_s[i] - result.step_end_s[i - 1]);
    durations_s_.push_back(passed);
    if (cut_) by_item_[i % by_item_.size()].push_back(passed);
  }
}

Measured TrainingRate::rate() const { return rate_from_durations(durations_s_, "steps/s"); }

}  // namespace slipstream
