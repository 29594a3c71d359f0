#include "transforms/axis_filter.h"

#include <algorithm>

namespace slipstream {
namespace {

std::int64_t whole_fours(std::int64_t n) { return (n + 3) / 4 * 4; }

}  // namespace

AxisFilter::AxisFilter(FilterKind kind, const AxisInterval& in, std::int64_t out)
    : in_(in), out_(out), filter_(kind, in, out), taps_(whole_fours(filter_.most_inputs())) {}

bool AxisFilter::keeps_size() const {
  return in_.pixels == out_ && in_.length == static_cast<double>(out_);
}

void AxisFilter::place(std::byte* memory) {
  first_ = reinterpret_cast<std::int32_t*>(memory);
  count_ = first_ + out_;
  halves_ = reinterpret_cast<std::int16_t*>(count_ + out_);
  // SIMD code reads weights in pairs and for several outputs at a time, so it also reads those
  // after the last one.
  std::fill_n(halves_, 2 * taps_ * out_, std::int16_t{0});
  for (std::int64_t i = 0; i < out_; ++i) weigh(i);
}

void AxisFilter::weigh(std::int64_t i) {
  const std::int64_t begin = filter_.begin(i);
  const std::int64_t end = filter_.end(i);
  const double sum = filter_.sum(i);
  first_[i] = static_cast<std::int32_t>(begin);
  count_[i] = static_cast<std::int32_t>(end - begin);
  std::int16_t* high = halves_ + 2 * taps_ * i;
  std::int16_t* low = high + taps_;
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int32_t weight = filter_.weight(i, at, sum);
    *high++ = static_cast<std::int16_t>(weight >> kLowBits);
    *low++ = static_cast<std::int16_t>(weight & ((1 << kLowBits) - 1));
  }
}

}  // namespace slipstream
