#include "doctor/training_rate.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/seconds_since.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 40;
constexpr int kTries = 3;

void add_to(std::vector<StepCounter>& totals, const std::vector<StepCounter>& more) {
  if (totals.empty()) totals.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    totals[i].name = more[i].name;
    totals[i].add(more[i]);
  }
}

}  // namespace

TrainingRate::TrainingRate(Plan plan, std::optional<Cut> cut, std::string last_step)
    : plan_(std::move(plan)), cut_(std::move(cut)), last_step_(std::move(last_step)), rate_(cut_) {}

void TrainingRate::measure(Trainer& trainer, double seconds, const std::function<bool()>& stop) {
  const auto stopped = [&] { return stop && stop(); };
  if (plan_.schedule.loader.cache && !cut_) fill_cache(trainer, stop);
  bool is_kept = false;
  const std::size_t filled = plan_.schedule.lanes.size() + 1;
  std::size_t least = filled + kFewestSteadySteps;
  for (int i = 0; i < kTries && !is_kept && !stopped(); ++i) {
    std::size_t entered = 0;
    std::optional<Clock::time_point> start;
    RunOptions options;
    options.steps = kMostSteps;
    options.cut = cut_;
    options.last_step = last_step_;
    options.digest = false;
    options.check_loss = false;
    options.first_counted = filled;
    options.check_cache = cut_ && cut_->after == "copy";
    std::size_t done = 0;
    options.progress = [&](const Progress& progress) { done = progress.step; };
    options.stop = [&] {
      if (!start) start = Clock::now();
      const double passed = seconds_since(*start);
      const double on_the_way = static_cast<double>(entered - done) * passed /
                                static_cast<double>(std::max<std::size_t>(1, done));
      return stopped() || (entered++ >= least && passed + on_the_way >= seconds);
    };
    last_ = trainer.run(plan_, options);
    add_to(counters_, last_.counters);
    is_kept = rate_.add(last_, trainer.pipeline().options().batch_size);
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
  options.check_loss = false;
  options.stop = [&] { return (stop && stop()) || seconds_since(start) > fill_s_; };
  const RunResult result = trainer.run(plan_, options);
  is_cold_ = result.interrupted && result.cache && result.cache->is_filling;
}

}  // namespace slipstream
