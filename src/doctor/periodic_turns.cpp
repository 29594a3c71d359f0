#include "doctor/periodic_turns.h"

#include <algorithm>
#include <numeric>

namespace slipstream {
namespace {

constexpr std::size_t kWarmUpSteps = 2;  ///< of cached batches
constexpr double kBatchS = 0.1;          ///< that a batch takes which is counted

std::size_t warm_up_steps(std::size_t workers) { return workers > 1 ? workers : kWarmUpSteps; }

}  // namespace

PeriodicTurns::PeriodicTurns(std::size_t workers, std::size_t skipped)
    : period_(std::max<std::size_t>(1, workers)), skipped_(skipped) {}

void PeriodicTurns::begin(const TurnTime& time, double now_s) {
  done_ = 0;
  start_s_ = now_s;
  wanted_s_ = time.wanted_s;
}

bool PeriodicTurns::add(double now_s) {
  ++done_;
  return counted() < period_ || now_s - start_s_ < wanted_s_;
}

LoaderTurns::LoaderTurns(std::size_t workers, std::size_t batch_size)
    : PeriodicTurns(workers, std::max<std::size_t>(1, workers)), batch_size_(batch_size) {}

void LoaderTurns::begin(const TurnTime& time, double now_s) {
  ends_s_.clear();
  PeriodicTurns::begin(time, now_s);
}

bool LoaderTurns::add(double now_s) {
  ends_s_.push_back(now_s);
  return PeriodicTurns::add(now_s);
}

void LoaderTurns::end() {
  std::vector<BlockRate::Point> points;
  for (std::size_t i = skipped_; i <= ends_s_.size(); i += period_)
    points.push_back({ends_s_[i - 1], static_cast<double>(i * batch_size_)});
  rate_.add(points);
}

TrainingTurns::TrainingTurns(std::size_t workers)
    : PeriodicTurns(workers, warm_up_steps(workers)) {}

void TrainingTurns::end(const std::vector<double>& durations_s) {
  const std::size_t skipped = std::min(skipped_, durations_s.size());
  last_s_.assign(durations_s.begin() + static_cast<std::ptrdiff_t>(skipped), durations_s.end());
  for (auto from = last_s_.begin(); last_s_.end() - from >= static_cast<std::ptrdiff_t>(period_);) {
    const auto to = from + static_cast<std::ptrdiff_t>(period_);
    means_s_.push_back(std::accumulate(from, to, 0.0) / static_cast<double>(period_));
    from = to;
  }
}

Measured TrainingTurns::rate() const {
  const bool is_measured =
      std::any_of(means_s_.begin(), means_s_.end(), [](double each) { return each > 0; });
  return is_measured ? rate_from_durations(means_s_, "steps/s") : Measured{0, 0, 0, "steps/s", 0};
}

std::vector<std::vector<double>> TrainingTurns::by_item(std::size_t items) const {
  std::vector<std::vector<double>> seconds(items);
  for (std::size_t i = 0; i < last_s_.size(); ++i) seconds[i % items].push_back(last_s_[i]);
  return seconds;
}

std::size_t counted_batch_size(std::size_t batch_size, double sample_s) {
  const double fitting = kBatchS / std::max(sample_s, 1e-9);
  return static_cast<std::size_t>(std::clamp(fitting, 1.0, static_cast<double>(batch_size)));
}

}  // namespace slipstream
