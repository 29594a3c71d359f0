#pragma once

#if !defined(__CUDACC_RTC__)
#include <cmath>
#endif

#include "cuda/augment/moves.h"
#include "transforms/resize_filter.h"

// Computes the pixels of a pass with the arithmetic of the operations' CPU forms, in the same
// order, so that the bits are equal.
namespace slipstream::augment {

SLIPSTREAM_INLINED float magnitude(float value) {
#if defined(__CUDA_ARCH__)
  return fabsf(value);
#else
  return value < 0.0F ? -value : value;
#endif
}

SLIPSTREAM_INLINED float with_sign(float value, float size) {
#if defined(__CUDA_ARCH__)
  return copysignf(size, value);
#else
  return std::copysign(size, value);
#endif
}

SLIPSTREAM_CALLED float divided(float value, float by) { return value / by; }

/// Returns true if the value is neither so small nor so large that an intermediate result of its
/// division would be subnormal or infinite.
SLIPSTREAM_INLINED bool is_usual(float value) {
  return value == 0.0F || (magnitude(value) >= 0x1p-60F && magnitude(value) < 0x1p60F);
}

/// Divides by multiplying with the inverse in two parts, which is faster than a division
/// (Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when the
/// divisor is known in advance", 2004).
SLIPSTREAM_INLINED float summed_quotient(float value, const Divisor& by) {
  return fused(value, by.inverse, value * by.rest);
}

/// Multiplies with the inverse and corrects the result twice by its remainder, which fma computes
/// exactly. After the first correction the error is less than one bit, so the second gives the
/// correctly rounded quotient (Markstein, "Computation of elementary functions on the IBM RISC
/// System/6000 processor", 1990).
SLIPSTREAM_INLINED float corrected_quotient(float value, const Divisor& by) {
  const float first = value * by.inverse;
  const float second = fused(fused(-by.value, first, value), by.inverse, first);
  return fused(fused(-by.value, second, value), by.inverse, second);
}

/// Divides with a single rounding. The intermediate steps may lose the sign of a zero, so it is
/// restored if needed.
SLIPSTREAM_INLINED float quotient(float value, const Divisor& by) {
  const float result = by.is_exact ? summed_quotient(value, by) : corrected_quotient(value, by);
  const bool loses_sign = !by.is_exact || by.rest < 0.0F;
  return by.is_signed && loses_sign ? with_sign(value, result) : result;
}

/// Divides the values of one channel by the same divisor. A division by a variable is slow, so it
/// is used only if some value is not usual.
template <int C, int N>
SLIPSTREAM_INLINED void divide(int c, const Divisor& by, Pixel<C> (&run)[N]) {
  if (by.value == 1.0F) return;
  bool are_usual = by.is_usual;
  if (!by.is_usual && by.inverse != 0.0F) {
    are_usual = true;
    for (const Pixel<C>& pixel : run) are_usual = are_usual && is_usual(pixel.value[c]);
  }
  if (are_usual) {
    for (Pixel<C>& pixel : run) pixel.value[c] = quotient(pixel.value[c], by);
  } else {
    for (Pixel<C>& pixel : run) pixel.value[c] = divided(pixel.value[c], by.value);
  }
}

/// Applies one step on values that needs no other pixel, to pixels of one image.
template <int C, int N>
SLIPSTREAM_INLINED void advance_values(const ProgramStep& step, Pixel<C> (&run)[N]) {
  const bool is_to_float = step.kind == StepKind::to_float ||
                           (step.kind == StepKind::normalize && step.range == Range::levels);
  for (int c = 0; c < C; ++c) {
    if (is_to_float) {
      for (Pixel<C>& pixel : run) pixel.value[c] = from_level(pixel.value[c]);
    }
    if (step.kind == StepKind::to_float) continue;
    const float less = step.subtracted[c];
    if (step.kind == StepKind::normalize) {
      for (Pixel<C>& pixel : run) pixel.value[c] -= less;
    }
    divide<C, N>(c, step.divisor[c], run);
  }
}

template <int C>
SLIPSTREAM_CALLED Pixel<C> jittered_pixel(Pixel<C> pixel, const DrawnJitter& drawn, float mean,
                                          Range range) {
  return jittered(pixel, drawn, mean, range, 0, DrawnJitter::kSteps);
}

template <int C, int N>
SLIPSTREAM_INLINED void advance_colors(const Image& image, const ProgramStep& step,
                                       Pixel<C> (&run)[N]) {
  if constexpr (C == 3) {
    if (step.kind == StepKind::convert_color) {
      for (Pixel<C>& pixel : run) pixel = converted(pixel, step.matrix);
    }
    if (step.kind == StepKind::grayscale && drawn_at<DrawnGrayscale>(step, image.drawn).is_gray) {
      for (Pixel<C>& pixel : run) pixel = grayed(pixel, step.range);
    }
  }
  if constexpr (C == 1 || C == 3) {
    if (step.kind != StepKind::jitter) return;
    const DrawnJitter& drawn = drawn_at<DrawnJitter>(step, image.drawn);
    const float mean = step.statistic < 0 ? 0.0F : image.prepared.mean[step.statistic];
    for (Pixel<C>& pixel : run) pixel = jittered_pixel<C>(pixel, drawn, mean, step.range);
  }
}

SLIPSTREAM_INLINED const Statistics& statistics_for(const Image& image, const ProgramStep& step) {
  return statistics_at(image.prepared.statistics +
                       step.statistic * image.prepared.statistics_apart);
}

/// Applies an operation of adjust.h to a value of channel `c`.
SLIPSTREAM_INLINED float adjusted(const Image& image, const ProgramStep& step, float value, int c) {
  switch (step.kind) {
    case StepKind::invert:
      return inverted(value, step.range);
    case StepKind::posterize:
      return posterized(value, step.bits, step.range);
    case StepKind::solarize:
      return solarized(value, step.amount, step.range);
    case StepKind::stretch:
      return stretched(value, extremes(statistics_for(image, step), c), step.range);
    default:  // equalize and augment
      return statistics_for(image, step).table[c][static_cast<std::int32_t>(value) & 255];
  }
}

/// Returns the weight of a sharpening.
SLIPSTREAM_INLINED float sharpening_weight(const ProgramStep& step, const std::byte* drawn) {
  if (!step.draws_amount) return step.amount;
  const float magnitude = drawn_at<DrawnAugmentations::Step>(step, drawn).magnitude;
  return sharpness_weight(1 + static_cast<double>(magnitude));
}

/// Returns the sum of the 8 values around one. Each argument points to the left value of a row.
SLIPSTREAM_INLINED float sum_around(const float* above, const float* middle, const float* below) {
  float sum = 0.0F;
  for (int i = 0; i < 3; ++i) sum += above[i];
  sum += middle[0];
  sum += middle[2];
  for (int i = 0; i < 3; ++i) sum += below[i];
  return sum;
}

template <int C, int N>
SLIPSTREAM_INLINED void advance_adjustment(const Image& image, const ProgramStep& step,
                                           Pixel<C> (&run)[N]) {
  if (step.kind == StepKind::augment) {
    const auto& drawn = drawn_at<DrawnAugmentations::Step>(step, image.drawn);
    if constexpr (C == 3) {
      if (drawn.kind == Augmentation::color) {
        for (Pixel<C>& pixel : run) pixel = with_color(pixel, drawn.magnitude);
      }
    }
    if (!has_table(drawn.kind)) return;
  }
  for (Pixel<C>& pixel : run) {
    for (int c = 0; c < C; ++c) pixel.value[c] = adjusted(image, step, pixel.value[c], c);
  }
}

#ifdef SLIPSTREAM_FUNCTIONS
// A kernel with user-defined functions defines call_function() before including this header.
// Kernels for any pass have none.
template <int C, int N>
SLIPSTREAM_INLINED void advance_function(const Image& image, const ProgramStep& step,
                                         Pixel<C> (&run)[N]) {
  for (Pixel<C>& pixel : run) {
    if (step.range == Range::levels) {
      for (float& value : pixel.value) value = from_level(value);
    }
    pixel = call_function<C>(step.function, image.drawn + step.drawn, pixel);
  }
}
#endif

template <int C, int N>
SLIPSTREAM_INLINED void advance(const Image& image, const ProgramStep& step, Pixel<C> (&run)[N]) {
  if (!applies(step, image.drawn)) return;
#ifdef SLIPSTREAM_FUNCTIONS
  if (step.kind == StepKind::function) return advance_function<C, N>(image, step, run);
#endif
  if (step.kind >= StepKind::invert) {
    if (step.kind <= StepKind::augment) advance_adjustment<C, N>(image, step, run);
  } else if (step.kind >= StepKind::convert_color) {
    advance_colors<C, N>(image, step, run);
  } else if (step.kind >= StepKind::to_float) {
    advance_values<C, N>(step, run);
  }
}

/// Applies the steps `first` to `last` - 1, none of which needs other pixels.
template <int C, int N>
SLIPSTREAM_INLINED void go_through(const Image& image, std::int32_t first, std::int32_t last,
                                   Pixel<C> (&run)[N]) {
  each_step(image.pass, first, last,
            [&](const ProgramStep& step) { advance<C, N>(image, step, run); });
}

template <int C>
SLIPSTREAM_INLINED Pixel<C> gone_through(const Image& image, std::int32_t first, std::int32_t last,
                                         const Pixel<C>& pixel) {
  Pixel<C> run[1] = {pixel};
  go_through<C, 1>(image, first, last, run);
  return run[0];
}

/// Computes pixels (y, x) to (y, x + N - 1) before step plain_end(), from the source's pixels at
/// their origins. Requires that the moves before that step are plain.
template <int C, int N>
SLIPSTREAM_INLINED void advance_plain(const Image& image, std::int32_t y, std::int32_t x,
                                      Pixel<C> (&run)[N]) {
  each_plain_step(image.pass, [&](const ProgramStep& step) {
    if (step.kind >= StepKind::to_float) return advance<C, N>(image, step, run);
    for (int k = 0; k < N; ++k) {
      if (is_blotted(image, step, y, x + k)) run[k] = fill_pixel<C>(step);
    }
  });
}

/// Computes pixel (y, x) before step plain_end(). Requires that the moves before that step are
/// plain.
template <int C>
SLIPSTREAM_INLINED Pixel<C> plain_pixel(const Image& image, std::int32_t y, std::int32_t x) {
  const PlainMove& to = image.prepared.before;
  Pixel<C> run[1] = {image.source.at<C>(to.top + to.down * y, to.left + to.right * x)};
  advance_plain<C, 1>(image, y, x, run);
  return run[0];
}

/// Computes pixel (y, x) before step `last`, if no step before that interpolates.
template <int C>
SLIPSTREAM_CALLED Pixel<C> moved_pixel(const Image& image, std::int32_t last, std::int32_t y,
                                       std::int32_t x) {
  const PassProgram& pass = image.pass;
  if (pass.has_plain_moves && last == plain_end(pass)) return plain_pixel<C>(image, y, x);
  const Origin origin = way_back(pass, image.drawn, 0, last, y, x);
  return gone_through<C>(image, origin.next, last,
                         origin.is_filled ? fill_pixel<C>(pass.steps[origin.next - 1])
                                          : image.source.at<C>(origin.y, origin.x));
}

/// The image before the interpolating step, computed pixel by pixel.
template <int C>
struct Before {
  const Image& image;

  SLIPSTREAM_INLINED Pixel<C> at(std::int32_t y, std::int32_t x) const {
    return moved_pixel<C>(image, image.pass.interpolation, y, x);
  }
};

template <int C>
SLIPSTREAM_INLINED Pixel<C> between(const Pixel<C>& first, const Pixel<C>& second, float weight) {
  Pixel<C> result;
  for (int c = 0; c < C; ++c) {
    result.value[c] = slipstream::between(first.value[c], second.value[c], weight);
  }
  return result;
}

template <int C>
SLIPSTREAM_INLINED Pixel<C> warped(const Before<C>& before, const ProgramStep& step, std::int32_t y,
                                   std::int32_t x) {
  const Coordinate at = source_coordinate(drawn_at<DrawnWarp>(step, before.image.drawn), x, y);
  const std::int32_t left = whole_below(at.x);
  const std::int32_t top = whole_below(at.y);
  const float across = at.x - static_cast<float>(left);
  const auto value = [&](std::int32_t row, std::int32_t column) {
    if (is_within(row, step.in_height) && is_within(column, step.in_width)) {
      return before.at(row, column);
    }
    return fill_pixel<C>(step);
  };
  const Pixel<C> upper = between<C>(value(top, left), value(top, left + 1), across);
  const Pixel<C> lower = between<C>(value(top + 1, left), value(top + 1, left + 1), across);
  return between<C>(upper, lower, at.y - static_cast<float>(top));
}

SLIPSTREAM_INLINED FilterKind step_filter(const ProgramStep& step) {
  return filter_kind(step.interpolation, step.antialias);
}

/// Resizes in float32.
template <int C>
SLIPSTREAM_INLINED Pixel<C> resized_floats(const Before<C>& before, const ProgramStep& step,
                                           std::int32_t y, std::int32_t x) {
  const ResizedRegion& region = before.image.prepared.region;
  const auto row_value = [&](std::int32_t row) {
    row += region.top;
    if (!is_filtered_axis(step_filter(step), step.antialias, region.width, step.out_width)) {
      const Neighbors of = resized_axis(x, region.width, before.image.prepared.scale_x);
      return between<C>(before.at(row, region.left + of.first),
                        before.at(row, region.left + of.second), of.weight);
    }
    const ResizeFilter filter(step_filter(step), region.width, step.out_width);
    const double total = filter.sum(x);
    const std::int64_t begin = filter.begin(x);
    Pixel<C> sum;
    for (std::int64_t i = begin; i < filter.end(x); ++i) {
      const float weight = filtered_weight(filter.weight(x, i, total));
      const Pixel<C> pixel = before.at(row, region.left + static_cast<std::int32_t>(i));
      for (int c = 0; c < C; ++c) {
        sum.value[c] =
            i == begin ? weight * pixel.value[c] : fused(weight, pixel.value[c], sum.value[c]);
      }
    }
    return sum;
  };
  if (!is_filtered_axis(step_filter(step), step.antialias, region.height, step.out_height)) {
    const Neighbors of = resized_axis(y, region.height, before.image.prepared.scale_y);
    return between<C>(row_value(of.first), row_value(of.second), of.weight);
  }
  const ResizeFilter filter(step_filter(step), region.height, step.out_height);
  const double total = filter.sum(y);
  const std::int64_t begin = filter.begin(y);
  Pixel<C> sum;
  for (std::int64_t i = begin; i < filter.end(y); ++i) {
    const float weight = filtered_weight(filter.weight(y, i, total));
    const Pixel<C> row = row_value(static_cast<std::int32_t>(i));
    for (int c = 0; c < C; ++c) {
      sum.value[c] = i == begin ? weight * row.value[c] : fused(weight, row.value[c], sum.value[c]);
    }
  }
  return sum;
}

SLIPSTREAM_INLINED std::int32_t fixed_level(std::int32_t sum) {
  const std::int32_t level = sum >> ResizeFilter::kFractionBits;
  return level < 0 ? 0 : (level > 255 ? 255 : level);
}

/// Resizes levels in fixed point, with a rounding after each axis.
template <int C>
SLIPSTREAM_INLINED Pixel<C> resized_levels(const Before<C>& before, const ProgramStep& step,
                                           std::int32_t y, std::int32_t x) {
  constexpr std::int32_t kHalf = 1 << (ResizeFilter::kFractionBits - 1);
  const ResizedRegion& region = before.image.prepared.region;
  const ResizeFilter across(step_filter(step), region.width, step.out_width);
  const ResizeFilter down(step_filter(step), region.height, step.out_height);
  const double across_total = across.sum(x);
  const double down_total = down.sum(y);
  std::int32_t sums[C];
  for (int c = 0; c < C; ++c) sums[c] = kHalf;
  for (std::int64_t j = down.begin(y); j < down.end(y); ++j) {
    std::int32_t row[C];
    for (int c = 0; c < C; ++c) row[c] = kHalf;
    for (std::int64_t i = across.begin(x); i < across.end(x); ++i) {
      const std::int32_t weight = across.weight(x, i, across_total);
      const Pixel<C> pixel = before.at(region.top + static_cast<std::int32_t>(j),
                                       region.left + static_cast<std::int32_t>(i));
      for (int c = 0; c < C; ++c) row[c] += weight * static_cast<std::int32_t>(pixel.value[c]);
    }
    const std::int32_t weight = down.weight(y, j, down_total);
    for (int c = 0; c < C; ++c) sums[c] += weight * fixed_level(row[c]);
  }
  Pixel<C> result;
  for (int c = 0; c < C; ++c) result.value[c] = static_cast<float>(fixed_level(sums[c]));
  return result;
}

template <int C>
SLIPSTREAM_CALLED Pixel<C> interpolated(const Before<C>& before, const ProgramStep& step,
                                        std::int32_t y, std::int32_t x) {
  if (!applies(step, before.image.drawn)) return before.at(y, x);
  const bool is_levels = step.range == Range::levels;
  if (step.kind != StepKind::warp && is_levels &&
      filters_levels(step.interpolation, step.antialias)) {
    return resized_levels(before, step, y, x);
  }
  Pixel<C> pixel =
      step.kind == StepKind::warp ? warped(before, step, y, x) : resized_floats(before, step, y, x);
  if (!is_levels) return pixel;
  for (int c = 0; c < C; ++c) pixel.value[c] = to_level(pixel.value[c]);
  return pixel;
}

/// Computes pixel (y, x) before step `last`, which must not be after the stencil.
template <int C, bool kInterpolates>
SLIPSTREAM_CALLED Pixel<C> pixel_before(const Image& image, std::int32_t last, std::int32_t y,
                                        std::int32_t x) {
  const PassProgram& pass = image.pass;
  if constexpr (!kInterpolates) return moved_pixel<C>(image, last, y, x);
  if (last <= pass.interpolation) return moved_pixel<C>(image, last, y, x);
  const Origin origin = way_back(pass, image.drawn, pass.interpolation + 1, last, y, x);
  return gone_through<C>(
      image, origin.next, last,
      origin.is_filled
          ? fill_pixel<C>(pass.steps[origin.next - 1])
          : interpolated(Before<C>{image}, pass.steps[pass.interpolation], origin.y, origin.x));
}

}  // namespace slipstream::augment
