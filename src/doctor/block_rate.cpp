#include "doctor/block_rate.h"

#include <algorithm>

namespace slipstream {
namespace {

constexpr std::size_t kBlocks = 16;  ///< of a turn, at most

}  // namespace

void BlockRate::add(const std::vector<Point>& points) {
  if (points.size() < 2) return;
  seconds_ += points.back().at_s - points.front().at_s;
  samples_ += points.back().samples - points.front().samples;
  const std::size_t blocks = std::min(kBlocks, points.size() - 1);
  for (std::size_t i = 0; i < blocks; ++i) {
    const Point& from = points[i * (points.size() - 1) / blocks];
    const Point& to = points[(i + 1) * (points.size() - 1) / blocks];
    if (to.at_s > from.at_s)
      block_rates_.push_back((to.samples - from.samples) / (to.at_s - from.at_s));
  }
}

Measured BlockRate::rate() const {
  if (!is_measured()) return {0, 0, 0, "samples/s", 0};
  Measured rate = mean_interval(block_rates_, "samples/s");
  const double half = rate.value > 0 ? (rate.high - rate.value) / rate.value : 0;
  rate.value = samples_ / seconds_;  // a block that took time makes this more than 0
  rate.low = rate.value * std::max(0.0, 1 - half);
  rate.high = rate.value * (1 + half);
  return rate;
}

}  // namespace slipstream
