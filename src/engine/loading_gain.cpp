#include "engine/loading_gain.h"

#include <algorithm>
#include <limits>

namespace slipstream {
namespace {

constexpr std::size_t kParts = 2;  ///< most intervals that one gain covers
constexpr std::size_t kKept = kParts + 2;
/// Least share of the used samples that must have been loaded during the interval.
constexpr double kFilledUp = 0.97;
/// Tolerance, because host and device read their clocks at different moments.
constexpr double kNoise = 1.02;

}  // namespace

void LoadingGain::snapshot(std::uint64_t batch, std::span<const StepCounter> loaded,
                           std::span<const LaneResult> lanes) {
  LoadSnapshot snapshot{batch,
                        lanes.back().last_intervals.back().end_s,
                        0,
                        loaded.empty() ? 0 : loaded.back().calls,
                        {}};
  for (const StepCounter& step : loaded) snapshot.loading_s += step.wall_s;
  for (const LaneResult& lane : lanes) snapshot.busy_s.push_back(lane.busy_s);
  if (snapshots_.size() == kKept) snapshots_.erase(snapshots_.begin());
  snapshots_.push_back(std::move(snapshot));
}

std::optional<Gain> LoadingGain::gain(std::size_t batch_size, unsigned workers) const {
  for (std::size_t last = snapshots_.size(); last-- > 1;) {
    const auto gain =
        between(snapshots_[last - std::min(last, kParts)], snapshots_[last], batch_size, workers);
    if (gain) return gain;
  }
  return std::nullopt;
}

std::optional<Gain> LoadingGain::between(const LoadSnapshot& from, const LoadSnapshot& to,
                                         std::size_t batch_size, unsigned workers) {
  const auto steps = static_cast<double>(to.batch - from.batch);
  const auto samples = static_cast<double>(to.samples - from.samples);
  const double taken = steps * static_cast<double>(batch_size);
  if (samples < kFilledUp * taken) return std::nullopt;
  const double load =
      (to.loading_s - from.loading_s) / samples * static_cast<double>(batch_size) / workers;
  double step = 0;
  for (std::size_t lane = 0; lane < to.busy_s.size(); ++lane)
    step = std::max(step, (to.busy_s[lane] - from.busy_s[lane]) / steps);
  const double took = (to.end_s - from.end_s) / steps;
  if (load <= 0 || step <= 0 || took <= 0) return std::nullopt;
  const double predicted = (load + step) / std::max(load, step);
  const double measured = (load + step) / took;
  if (measured > kNoise * predicted) return std::nullopt;
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  Gain gain;
  gain.part = "loading";
  gain.predicted = {predicted, unknown, unknown, "1", 1};
  gain.measured = {std::min(measured, predicted), unknown, unknown, "1", to.batch - from.batch};
  return gain;
}

}  // namespace slipstream
