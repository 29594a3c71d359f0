#pragma once

#include "cuda/augment/evaluate.h"

// Computes the tables of Statistics.
namespace slipstream::augment {

/// Returns the new value of `level` for RandomEqualize, in an image of `pixels` pixels. `count` is
/// the number of pixels with each level.
SLIPSTREAM_INLINED std::int32_t equalized_level(const std::uint32_t* count, std::int32_t level,
                                                std::int64_t pixels) {
  std::int64_t below = 0;
  std::int64_t largest = 0;
  for (std::int32_t i = 0; i < kLevels; ++i) {
    if (i < level) below += count[i];
    if (count[i] > 0) largest = count[i];
  }
  return equalized(level, below, equalizer_step(pixels, largest));
}

/// Returns the new value of `level` in channel `c` for an augmentation that has_table().
SLIPSTREAM_INLINED float augmented_level(const DrawnAugmentations::Step& drawn, float level, int c,
                                         std::int64_t pixels, const Statistics& of) {
  const float magnitude = drawn.magnitude;
  switch (drawn.kind) {
    case Augmentation::brightness:
      return brightened(level, magnitude);
    case Augmentation::contrast:
      return truncated_blend(level, mean_level(of.sum, pixels, Range::levels), magnitude);
    case Augmentation::posterize:
      return posterized(level, static_cast<std::int32_t>(magnitude), Range::levels);
    case Augmentation::solarize:
      return solarized(level, solarize_threshold(magnitude), Range::levels);
    case Augmentation::auto_contrast:
      return stretched(level, extremes(of, c), Range::levels);
    case Augmentation::equalize:
      return static_cast<float>(
          equalized_level(of.count[c], static_cast<std::int32_t>(level), pixels));
    default:
      return inverted(level, Range::levels);
  }
}

/// Computes the new values of `level` for the sample with the parameters `drawn`.
/// REQUIRES: has_table(step.kind)
SLIPSTREAM_INLINED void set_table(const ProgramStep& step, const std::byte* drawn, int channels,
                                  std::int32_t level, Statistics& of) {
  if (!applies(step, drawn)) return;
  const std::int64_t pixels = pixel_count(step);
  for (int c = 0; c < channels; ++c) {
    std::uint8_t& entry = of.table[c][level];
    if (step.kind == StepKind::equalize) {
      entry = static_cast<std::uint8_t>(equalized_level(of.count[c], level, pixels));
      continue;
    }
    const auto& augmentation = drawn_at<DrawnAugmentations::Step>(step, drawn);
    if (!has_table(augmentation.kind)) return;
    entry = static_cast<std::uint8_t>(
        augmented_level(augmentation, static_cast<float>(level), c, pixels, of));
  }
}

}  // namespace slipstream::augment
