#include "doctor/periodic_turns.h"

#include <algorithm>
#include <numeric>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

constexpr std::size_t kWarmUpSteps = 2;  ///< uncounted steps of training on cached batches
constexpr double kBatchS = 0.1;          ///< wanted seconds per counted batch

}  // namespace

PeriodicTurns::PeriodicTurns(std::size_t workers, std::size_t fewest_skipped)
    : period_(std::max<std::size_t>(1, workers)), skipped_(std::max(period_, fewest_skipped)) {}

PeriodicTurns PeriodicTurns::of_loader(std::size_t workers, std::size_t batch_size) {
  PeriodicTurns turns(workers, 1);
  turns.batch_size_ = batch_size;
  return turns;
}

PeriodicTurns PeriodicTurns::of_training(std::size_t workers) { return {workers, kWarmUpSteps}; }

void PeriodicTurns::restart() {
  last_s_.clear();
  means_s_.clear();
}

void PeriodicTurns::begin(const TurnTime& time, double now_s) {
  done_ = 0;
  start_s_ = now_s;
  wanted_s_ = time.wanted_s;
}

bool PeriodicTurns::add(double now_s) {
  ++done_;
  return counted() < period_ || now_s - start_s_ < wanted_s_;
}

void PeriodicTurns::end(const std::vector<double>& durations_s) {
  const auto skipped = static_cast<std::ptrdiff_t>(std::min(skipped_, durations_s.size()));
  last_s_.assign(durations_s.begin() + skipped, durations_s.end());
  const auto period = static_cast<std::ptrdiff_t>(period_);
  for (auto from = last_s_.begin(); last_s_.end() - from >= period; from += period)
    means_s_.push_back(std::accumulate(from, from + period, 0.0) / static_cast<double>(period_));
}

Measured PeriodicTurns::rate() const {
  const std::string unit = batch_size_ > 0 ? "samples/s" : "steps/s";
  if (std::accumulate(means_s_.begin(), means_s_.end(), 0.0) <= 0) return {0, 0, 0, unit, 0};
  const auto each = static_cast<double>(std::max<std::size_t>(1, batch_size_));
  return scaled(rate_from_durations(means_s_, unit), each, unit);
}

std::vector<std::vector<double>> PeriodicTurns::by_item(std::size_t items) const {
  std::vector<std::vector<double>> seconds(items);
  for (std::size_t i = 0; i < last_s_.size(); ++i) seconds[i % items].push_back(last_s_[i]);
  return seconds;
}

std::size_t counted_batch_size(std::size_t batch_size, double sample_s) {
  const double fitting = kBatchS / std::max(sample_s, 1e-9);
  return static_cast<std::size_t>(std::clamp(fitting, 1.0, static_cast<double>(batch_size)));
}

}  // namespace slipstream
