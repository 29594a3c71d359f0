#pragma once

#include <cstdint>

namespace slipstream {

/// An interval of a row or column of pixels, which may begin and end inside a pixel.
struct AxisInterval {
  std::int64_t pixels;  ///< number of pixels that it touches
  double from;          ///< offset from the edge of the first pixel, in [0, 1)
  double length;
};

/// The weights of an antialiased triangle filter that resizes one axis from `in` to `out` pixels,
/// in units of 2^-22. The CPU and the GPU share this definition, in IEEE double precision without
/// contraction, so both give the same bits.
class TriangleFilter {
 public:
  static constexpr int kFractionBits = 22;

  constexpr TriangleFilter(const AxisInterval& in, std::int64_t out)
      : in_(in.pixels),
        from_(in.from),
        scale_(in.length / static_cast<double>(out)),
        reach_(scale_ > 1.0 ? scale_ : 1.0),
        per_reach_(1.0 / reach_) {}
  constexpr TriangleFilter(std::int64_t in, std::int64_t out)
      : TriangleFilter({in, 0, static_cast<double>(in)}, out) {}

  /// Upper bound for the number of inputs of an output.
  constexpr std::int64_t most_inputs() const { return 2 * -floor(-reach_) + 1; }
  /// First input of output i. Output i depends on the inputs begin(i) to end(i) - 1.
  constexpr std::int64_t begin(std::int64_t i) const {
    const std::int64_t first = floor(center(i) - reach_ + 0.5);
    return first > 0 ? first : 0;
  }
  constexpr std::int64_t end(std::int64_t i) const {
    const std::int64_t last = floor(center(i) + reach_ + 0.5);
    return last < in_ ? last : in_;
  }
  /// Sum of the weights of output i, by which they are divided.
  constexpr double sum(std::int64_t i) const {
    double total = 0;
    for (std::int64_t at = begin(i), last = end(i); at < last; ++at) total += triangle(i, at);
    return total;
  }
  /// Weight of input `at` for output i, whose sum() is `total`.
  constexpr std::int32_t weight(std::int64_t i, std::int64_t at, double total) const {
    return static_cast<std::int32_t>(floor(triangle(i, at) / total * (1 << kFractionBits) + 0.5));
  }

 private:
  // std::floor() cannot be used in constexpr functions before C++23.
  static constexpr std::int64_t floor(double x) {
    const auto whole = static_cast<std::int64_t>(x);
    return static_cast<double>(whole) > x ? whole - 1 : whole;
  }
  constexpr double center(std::int64_t i) const {
    return from_ + (static_cast<double>(i) + 0.5) * scale_;
  }
  constexpr double triangle(std::int64_t i, std::int64_t at) const {
    const double distance = (static_cast<double>(at) - center(i) + 0.5) * per_reach_;
    const double height = 1.0 - (distance < 0 ? -distance : distance);
    return height > 0 ? height : 0;
  }

  std::int64_t in_;
  double from_;
  double scale_;
  double reach_;
  double per_reach_;
};

}  // namespace slipstream
