#pragma once

#include <cstdint>

namespace slipstream {

/// An interval of a row or column of pixels, which may begin and end inside a pixel.
struct AxisInterval {
  std::int64_t pixels;  ///< number of pixels that it touches
  double from;          ///< offset from the edge of the first pixel, in [0, 1)
  double length;
};

/// The shape of a filter.
enum class FilterKind : std::uint8_t {
  triangle,      ///< bilinear, antialiased
  cubic,         ///< bicubic, antialiased
  cubic_points,  ///< bicubic between four pixels, not antialiased
};

/// The weights of a filter that resizes one axis from `in` to `out` pixels, in units of 2^-22. The
/// CPU and the GPU share this definition, in IEEE double precision without contraction, so both
/// give the same bits.
///
/// The cubic filters are those of Keys, "Cubic convolution interpolation for digital image
/// processing" (1981), with the parameters that PyTorch uses: -0.5 with antialiasing, which
/// stretches the filter on an axis that gets smaller, and -0.75 without.
class ResizeFilter {
 public:
  static constexpr int kFractionBits = 22;

  constexpr ResizeFilter(FilterKind kind, const AxisInterval& in, std::int64_t out)
      : kind_(kind),
        in_(in.pixels),
        from_(in.from),
        scale_(in.length / static_cast<double>(out)),
        stretch_(scale_ > 1.0 && kind != FilterKind::cubic_points ? scale_ : 1.0),
        reach_(kind == FilterKind::triangle ? stretch_ : 2.0 * stretch_),
        per_stretch_(1.0 / stretch_) {}
  constexpr ResizeFilter(FilterKind kind, std::int64_t in, std::int64_t out)
      : ResizeFilter(kind, {in, 0, static_cast<double>(in)}, out) {}

  /// Distance from the center of an output to the farthest input on either side.
  constexpr double reach() const { return reach_; }
  /// Upper bound for the number of inputs of an output.
  constexpr std::int64_t most_inputs() const { return 2 * -floor(-reach_) + 1; }
  /// First input of output i. Output i depends on the inputs begin(i) to end(i) - 1.
  constexpr std::int64_t begin(std::int64_t i) const {
    const std::int64_t first = unclipped_begin(i);
    return first > 0 ? first : 0;
  }
  constexpr std::int64_t end(std::int64_t i) const {
    const std::int64_t last = unclipped_end(i);
    return last < in_ ? last : in_;
  }
  /// Sum of the weights of output i, by which they are divided.
  constexpr double sum(std::int64_t i) const {
    double total = 0;
    for (std::int64_t at = begin(i), last = end(i); at < last; ++at) total += height(i, at);
    return total;
  }
  /// Weight of input `at` for output i, whose sum() is `total`. Rounded to nearest, ties away from
  /// zero.
  constexpr std::int32_t weight(std::int64_t i, std::int64_t at, double total) const {
    const double exact = height(i, at) / total * (1 << kFractionBits);
    return static_cast<std::int32_t>(exact < 0 ? exact - 0.5 : exact + 0.5);
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
  constexpr std::int64_t unclipped_begin(std::int64_t i) const {
    return floor(center(i) - reach_ + 0.5);
  }
  constexpr std::int64_t unclipped_end(std::int64_t i) const {
    return floor(center(i) + reach_ + 0.5);
  }

  /// Height of the filter of output i over input `at`.
  constexpr double height(std::int64_t i, std::int64_t at) const {
    double height = curve(i, at);
    if (kind_ != FilterKind::cubic_points) return height;
    // Inputs outside of the image have the value of the nearest one inside.
    for (std::int64_t outside = unclipped_begin(i); at == 0 && outside < 0; ++outside) {
      height += curve(i, outside);
    }
    for (std::int64_t outside = in_; at == in_ - 1 && outside < unclipped_end(i); ++outside) {
      height += curve(i, outside);
    }
    return height;
  }
  constexpr double curve(std::int64_t i, std::int64_t at) const {
    const double distance = (static_cast<double>(at) - center(i) + 0.5) * per_stretch_;
    const double x = distance < 0 ? -distance : distance;
    if (kind_ == FilterKind::triangle) return x < 1.0 ? 1.0 - x : 0;
    const double a = kind_ == FilterKind::cubic ? -0.5 : -0.75;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0;
  }

  FilterKind kind_;
  std::int64_t in_;
  double from_;
  double scale_;
  double stretch_;
  double reach_;
  double per_stretch_;
};

}  // namespace slipstream
