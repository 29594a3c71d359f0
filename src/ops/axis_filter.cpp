#include "ops/axis_filter.h"

#include <algorithm>
#include <cmath>

namespace slipstream {
namespace {

std::int64_t whole_fours(std::int64_t n) { return (n + 3) / 4 * 4; }

std::int64_t round_up_half(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

}  // namespace

AxisFilter::AxisFilter(const Stretch& in, std::int64_t out)
    : in_(in),
      out_(out),
      scale_(in.length / static_cast<double>(out)),
      reach_(std::max(1.0, scale_)),
      taps_(whole_fours(2 * static_cast<std::int64_t>(std::ceil(reach_)) + 1)) {}

bool AxisFilter::keeps_size() const {
  return in_.pixels == out_ && in_.length == static_cast<double>(out_);
}

void AxisFilter::place(std::byte* memory) {
  first_ = reinterpret_cast<std::int32_t*>(memory);
  count_ = first_ + out_;
  halves_ = reinterpret_cast<std::int16_t*>(count_ + out_);
  std::fill_n(halves_, 2 * taps_ * out_, std::int16_t{0});
  for (std::int64_t i = 0; i < out_; ++i) weigh(i);
}

void AxisFilter::weigh(std::int64_t i) {
  const double per_reach = 1.0 / reach_;
  const double centre = in_.from + (static_cast<double>(i) + 0.5) * scale_;
  const auto begin = std::max<std::int64_t>(round_up_half(centre - reach_), 0);
  const auto end = std::min(round_up_half(centre + reach_), in_.pixels);
  const auto triangle = [&](std::int64_t at) {
    const double distance = (static_cast<double>(at) - centre + 0.5) * per_reach;
    return std::max(0.0, 1.0 - std::abs(distance));
  };
  double sum = 0;
  for (std::int64_t at = begin; at < end; ++at) sum += triangle(at);

  first_[i] = static_cast<std::int32_t>(begin);
  count_[i] = static_cast<std::int32_t>(end - begin);
  std::int16_t* high = halves_ + 2 * taps_ * i;
  std::int16_t* low = high + taps_;
  for (std::int64_t at = begin; at < end; ++at) {
    const auto weight = round_up_half(triangle(at) / sum * (1 << kFractionBits));
    *high++ = static_cast<std::int16_t>(weight >> kLowBits);
    *low++ = static_cast<std::int16_t>(weight & ((1 << kLowBits) - 1));
  }
}

}  // namespace slipstream
