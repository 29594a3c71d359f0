#include "doctor/drained_rate.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/seconds_since.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWarmUp = 0.1;               ///< share of the turn that does not count
constexpr std::uint64_t kFewestSamples = 16;  ///< for each worker
constexpr std::size_t kBlocks = 16;
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr double kSoon = 0.005;  ///< seconds between batches, below which take() blocks in next()

/// Takes and releases the batches of a loader as soon as they are ready.
class BatchConsumer {
 public:
  explicit BatchConsumer(DataLoader& loader) : loader_(loader) {}

  /// Takes all batches that are ready, but at most as many as there are slabs, so that the caller
  /// can check its time limit. Fast batches are waited for in next(). If batches are slow, the call
  /// sleeps instead, so that the caller can also stop in the middle of a batch.
  void take() {
    const bool comes_soon = seconds_since(last_) < kSoon;
    if (!comes_soon && !loader_.ready()) return std::this_thread::sleep_for(kPause);
    do {
      loader_.release(loader_.next(), nullptr);
    } while (loader_.ready() && ++in_a_row_ % loader_.slabs() != 0);
    last_ = Clock::now();
  }

 private:
  DataLoader& loader_;
  std::size_t in_a_row_ = 0;
  Clock::time_point last_ = {};
};

/// Keeps the times of the measured calls. A step that did not run for every sample gets a time of 0
/// for the others, so that its mean is the cost per sample. A step that runs for every sample has
/// already run for a few samples that the last step has not reached, so it may have fewer calls
/// than the last step in a measurement.
void keep_last(StepLaps& laps, std::uint64_t calls, std::uint64_t samples, bool runs_for_each) {
  const auto keep = [&](std::vector<float>& values) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(values.size(), calls));
    values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(wanted));
    if (runs_for_each) return;
    values.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kKeptLaps, samples)));
  };
  keep(laps.wall_s);
  keep(laps.cpu_s);
}

}  // namespace

DrainedRate::DrainedRate(Plan plan, std::optional<HostCut> cut)
    : plan_(std::move(plan)), cut_(std::move(cut)) {}

void DrainedRate::measure(const Trainer& trainer, const TurnTime& time, double fill_s,
                          const std::function<bool()>& stop) {
  const auto loader = trainer.make_loader(plan_, cut_);
  if (plan_.schedule.loader.cache && !cut_) fill_cache(*loader, fill_s, stop);
  measure(*loader, plan_.schedule.loader.num_workers, time, stop);
}

void DrainedRate::measure(DataLoader& loader, unsigned workers, const TurnTime& time,
                          const std::function<bool()>& stop) {
  const auto stopped = [&] { return stop && stop(); };
  BatchConsumer taker(loader);
  const auto start = Clock::now();
  const std::uint64_t fewest = kFewestSamples * workers;
  std::vector<StepCounter> before;
  std::vector<Point> points;
  while (!stopped()) {
    taker.take();
    const double passed = seconds_since(start);
    const std::vector<StepCounter> now = loader.counters();
    const std::uint64_t samples = now.back().calls;
    if (samples == 0 || (before.empty() && passed < kWarmUp * time.wanted_s)) continue;
    if (before.empty()) before = now;
    if (points.empty() || points.back().samples != samples) points.push_back({passed, samples});
    if (passed >= time.wanted_s && samples >= before.back().calls + fewest) break;
    if (passed >= time.most_s && points.size() >= 2) break;
  }
  if (points.size() < 2) return;
  keep(points);
  std::vector<StepCounter> after = loader.counters();
  laps_ = loader.laps();
  if (counters_.empty()) counters_.resize(after.size());
  std::vector<bool> runs_for_each;
  for (const StepCounter& step : after) runs_for_each.push_back(step.calls >= after.back().calls);
  for (std::size_t i = 0; i < after.size(); ++i) after[i].subtract(before[i]);
  for (std::size_t i = 0; i < after.size(); ++i) {
    counters_[i].name = after[i].name;
    counters_[i].add(after[i]);
    keep_last(laps_[i], after[i].calls, after.back().calls, runs_for_each[i]);
  }
}

void DrainedRate::fill_cache(DataLoader& loader, double fill_s, const std::function<bool()>& stop) {
  BatchConsumer taker(loader);
  const auto start = Clock::now();
  CacheCounters before = loader.cache();
  is_cold_ = true;
  while (is_cold_ && seconds_since(start) < fill_s && !(stop && stop())) {
    taker.take();
    CacheCounters now = loader.cache();
    if (now.hits > before.hits && now.misses == before.misses) is_cold_ = false;
    if (!now.is_filling) is_cold_ = false;
    before = now;
  }
}

void DrainedRate::keep(const std::vector<Point>& points) {
  const Point& first = points.front();
  const Point& last = points.back();
  seconds_ += last.at_s - first.at_s;
  samples_ += static_cast<double>(last.samples - first.samples);
  const std::size_t blocks = std::min(kBlocks, points.size() - 1);
  for (std::size_t i = 0; i < blocks; ++i) {
    const Point& from = points[i * (points.size() - 1) / blocks];
    const Point& to = points[(i + 1) * (points.size() - 1) / blocks];
    if (to.at_s > from.at_s)
      block_rates_.push_back(static_cast<double>(to.samples - from.samples) /
                             (to.at_s - from.at_s));
  }
}

Measured DrainedRate::rate() const {
  if (!is_measured()) return {0, 0, 0, "samples/s", 0};
  Measured rate = mean_interval(block_rates_, "samples/s");
  const double half = rate.value > 0 ? (rate.high - rate.value) / rate.value : 0;
  // Blocks differ in duration, so the mean of their rates is not the rate of the whole. They only
  // give its spread.
  rate.value = seconds_ > 0 ? samples_ / seconds_ : rate.value;
  rate.low = rate.value * std::max(0.0, 1 - half);
  rate.high = rate.value * (1 + half);
  return rate;
}

}  // namespace slipstream
