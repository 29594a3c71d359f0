#pragma once

#include "cuda/augment/evaluate.h"

// Collects the Statistics of images before a step.
namespace slipstream::augment {

/// The members of Statistics that a step needs for a sample.
enum class Measure : std::uint8_t { none, sum, extremes, counts };

SLIPSTREAM_INLINED Measure measured(Augmentation kind) {
  switch (kind) {
    case Augmentation::contrast:
      return Measure::sum;
    case Augmentation::auto_contrast:
      return Measure::extremes;
    case Augmentation::equalize:
      return Measure::counts;
    default:
      return Measure::none;
  }
}

SLIPSTREAM_INLINED Measure measured(const ProgramStep& step, const std::byte* drawn) {
  if (!applies(step, drawn)) return Measure::none;
  switch (step.kind) {
    case StepKind::jitter:
      return drawn_at<DrawnJitter>(step, drawn).has(Jitter::contrast) ? Measure::sum
                                                                      : Measure::none;
    case StepKind::stretch:
      return Measure::extremes;
    case StepKind::equalize:
      return Measure::counts;
    case StepKind::augment:
      return measured(drawn_at<DrawnAugmentations::Step>(step, drawn).kind);
    default:
      return Measure::none;
  }
}

/// Returns a pixel's contribution to Statistics::sum.
template <int C>
SLIPSTREAM_INLINED std::int32_t sum_term(const Image& image, const ProgramStep& step,
                                         const Pixel<C>& pixel) {
  if constexpr (C == 1 || C == 3) {
    if (step.kind == StepKind::augment) return static_cast<std::int32_t>(truncated_gray(pixel));
    const DrawnJitter& drawn = drawn_at<DrawnJitter>(step, image.drawn);
    return gray_sum_term(jittered(pixel, drawn, 0.0F, step.range, 0, drawn.contrast_place()),
                         step.range);
  }
  return 0;
}

/// The sum and the extremes of some pixels.
template <int C>
struct Collected {
  std::int64_t sum = 0;
  std::uint32_t least[C] = {};
  std::uint32_t most[C] = {};

  SLIPSTREAM_INLINED void add(const Pixel<C>& pixel) {
    for (int c = 0; c < C; ++c) {
      const float value = pixel.value[c];
      if (value != value) continue;
      const std::uint32_t order = ordered(value);
      least[c] = ~order > least[c] ? ~order : least[c];
      most[c] = order > most[c] ? order : most[c];
    }
  }
};

}  // namespace slipstream::augment
