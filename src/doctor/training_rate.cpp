#include "doctor/training_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/seconds_since.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 40;
constexpr int kTries = 3;                 ///< runs of a turn, until one has enough steady steps
constexpr std::size_t kFewestCached = 2;  ///< steps on cached batches; the first is a warm-up
constexpr double kSoonest = 1e-6;         ///< seconds of a step too short to be measured

void add_to(std::vector<StepCounter>& totals, const std::vector<StepCounter>& more) {
  if (totals.empty()) totals.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    totals[i].name = more[i].name;
    totals[i].add(more[i]);
  }
}

/// Returns the rate of a run's first steps. `is_cached`: all batches were ready from the start, so
/// the first step is a warm-up and the spread of the others is known. Otherwise prefetching may
/// make any step too fast, so the interval reaches down to 0.
Measured of_few(const std::vector<double>& ends_s, bool is_cached) {
  std::vector<double> durations_s;
  for (std::size_t i = 1; i < ends_s.size(); ++i) durations_s.push_back(ends_s[i] - ends_s[i - 1]);
  if (durations_s.empty()) durations_s = ends_s;
  Measured rate = rate_from_durations(durations_s, "steps/s");
  if (is_cached) return rate;
  rate.n = 1;
  rate.low = 0;
  rate.value = static_cast<double>(ends_s.size()) / ends_s.back();
  rate.high = std::max(rate.high, rate.value);
  return rate;
}

/// Returns the time of the slowest lane for the last step: even with overlap, no step is faster.
double last_step_s(const RunResult& result) {
  double longest_s = kSoonest;
  for (const LaneResult& lane : result.lanes)
    if (!lane.last_intervals.empty())
      longest_s = std::max(longest_s,
                           lane.last_intervals.back().end_s - lane.last_intervals.back().begin_s);
  return longest_s;
}

}  // namespace

TrainingRate::TrainingRate(Plan plan, std::optional<Cut> cut, std::string last_step)
    : plan_(std::move(plan)), cut_(std::move(cut)), last_step_(std::move(last_step)), rate_(cut_) {}

void TrainingRate::measure(Trainer& trainer, const TurnTime& time, const Stop& stop) {
  if (plan_.schedule.loader.cache && !cut_) fill_cache(trainer, stop);
  const bool is_bound = time.step_s <= 0 && std::isfinite(time.most_s);
  const TurnTime left = is_bound ? after_fewest(trainer, time, stop) : time;
  bool is_kept = is_bound && !allows_more(left);
  std::size_t least = plan_.schedule.lanes.size() + 1 + kFewestSteadySteps;
  const auto start = Clock::now();
  for (int i = 0; i < kTries && !is_kept && !(stop && stop()); ++i) {
    if (i > 0 && seconds_since(start) >= left.most_s) break;
    last_ = run(trainer, left, least, stop);
    add_to(counters_, last_.counters);
    is_kept = rate_.add(last_, trainer.pipeline().options().batch_size);
    // The next try is longer, so that steps are left after all prefetched batches have been used.
    least += 2 * plan_.schedule.loader.prefetch_batches + 2;
  }
  if (last_.step_end_s.empty() || (stop && stop())) return;
  scarce_ = of_few(last_.step_end_s, cut_ && (cut_->after == "copy" || cut_->after == "collate"));
}

void TrainingRate::restart() {
  rate_ = SteadyRate(cut_);
  scarce_ = {};
  counters_.clear();
}

Measured TrainingRate::rate() const {
  if (!rate_.is_measured()) return scarce_;
  const Measured steady = rate_.rate();
  return steady.n < std::min(scarce_.n, kFewestSteadySteps) ? scarce_ : steady;
}

std::size_t TrainingRate::fewest() const { return cut_ ? kFewestCached : 1; }

/// Runs the fewest possible steps, and returns the time that remains, with the time of a step.
/// Before the first step has ended, it is not known how many steps fit into the time, while the
/// lanes already run ahead. With so few steps, no lane can run ahead.
TurnTime TrainingRate::after_fewest(Trainer& trainer, const TurnTime& time, const Stop& stop) {
  RunOptions options = run_options();
  options.steps = fewest();
  if (options.cut) options.cut->items = 1;
  options.stop = stop;
  last_ = trainer.run(plan_, options);
  add_to(counters_, last_.counters);
  TurnTime left = time;
  if (last_.step_end_s.empty()) return left;
  left.step_s = last_step_s(last_);
  left.most_s = std::max(0.0, time.most_s - last_.step_end_s.back());
  if (time.learned && !last_.interrupted) time.learned(left.step_s);
  return left;
}

/// Whether the time allows more steps than fewest().
bool TrainingRate::allows_more(const TurnTime& time) const {
  return time.most_s > static_cast<double>(fewest()) * time.step_s;
}

RunOptions TrainingRate::run_options() const {
  RunOptions options;
  options.steps = kMostSteps;
  options.cut = cut_;
  options.last_step = last_step_;
  options.digest = false;
  options.check_loss = false;
  options.first_counted = plan_.schedule.lanes.size() + 1;
  options.check_cache = cut_ && cut_->after == "copy";
  return options;
}

RunResult TrainingRate::run(Trainer& trainer, const TurnTime& time, std::size_t least,
                            const Stop& stop) const {
  std::size_t entered = 0, done = 0;
  std::optional<Clock::time_point> start;
  RunOptions options = run_options();
  options.progress = [&](const Progress& progress) { done = progress.step; };
  options.stop = [&] {
    if (!start) start = Clock::now();
    const double passed = seconds_since(*start);
    // Batches that have entered are still trained after the stop, so their time counts, too.
    const double on_the_way = static_cast<double>(entered - done) * passed /
                              static_cast<double>(std::max<std::size_t>(1, done));
    const double known_s = time.step_s * static_cast<double>(entered);
    const bool is_over =
        entered >= fewest() && std::max(passed + on_the_way, known_s) >= time.most_s;
    return (stop && stop()) || is_over ||
           (entered++ >= least && passed + on_the_way >= time.wanted_s);
  };
  return trainer.run(plan_, options);
}

/// Trains for up to an epoch. The trainer keeps its loader, so the next run finds the cache filled.
void TrainingRate::fill_cache(Trainer& trainer, const Stop& stop) {
  is_cold_ = true;
  if (fill_s_ <= 0) return;
  const auto start = Clock::now();
  RunOptions options;
  options.steps =
      1 + trainer.pipeline().dataset()->size() / trainer.pipeline().options().batch_size;
  options.digest = false;
  options.check_loss = false;
  options.stop = [&] { return (stop && stop()) || seconds_since(start) > fill_s_; };
  const RunResult result = trainer.run(plan_, options);
  is_cold_ = result.interrupted && result.cache && result.cache->is_filling;
}

}  // namespace slipstream
