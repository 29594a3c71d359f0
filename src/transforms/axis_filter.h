#pragma once

#include <cstddef>
#include <cstdint>

#include "transforms/resize_filter.h"

namespace slipstream {

/// Weights of a filter along one axis of an image. Every output is a weighted sum of
/// `taps` consecutive inputs, starting at `first`; those from `count` on have weight 0. A weight is
/// high * 2^11 + low, in units of 2^-22; only `high` may be negative. The two halves fit into 16
/// bits, so that SIMD code can multiply them in 16 bits and sums stay exact in 32-bit integers.
class AxisFilter {
 public:
  static constexpr int kFractionBits = ResizeFilter::kFractionBits;
  static constexpr int kLowBits = 11;

  AxisFilter(FilterKind kind, const AxisInterval& in, std::int64_t out);

  std::int64_t in() const { return in_.pixels; }
  std::int64_t out() const { return out_; }
  /// Returns true if the filter changes nothing.
  bool keeps_size() const;
  std::int64_t taps() const { return taps_; }  ///< a multiple of 4

  /// Number of bytes that place() needs, a multiple of 4.
  std::int64_t bytes() const { return out_ * (8 + 4 * taps_); }
  /// Computes the weights into `memory`, which must be aligned to 4 and outlive their use.
  void place(std::byte* memory);

  std::int32_t first(std::int64_t i) const { return first_[i]; }
  std::int32_t count(std::int64_t i) const { return count_[i]; }
  const std::int16_t* high(std::int64_t i) const { return halves_ + 2 * taps_ * i; }
  const std::int16_t* low(std::int64_t i) const { return high(i) + taps_; }

 private:
  void weigh(std::int64_t i);

  AxisInterval in_;
  std::int64_t out_;
  ResizeFilter filter_;
  std::int64_t taps_;
  std::int32_t* first_ = nullptr;
  std::int32_t* count_ = nullptr;
  std::int16_t* halves_ = nullptr;
};

}  // namespace slipstream
