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

/// Computes the new values of `level` for the sample with the parameters `drawn`.
/// REQUIRES: has_table(step.kind)
SLIPSTREAM_INLINED void set_table(const ProgramStep& step, const std::byte* drawn, int channels,
                                  std::int32_t level, Statistics& of) {
  if (!applies(step, drawn)) return;
  for (int c = 0; c < channels; ++c) {
    of.table[c][level] =
        static_cast<std::uint8_t>(equalized_level(of.count[c], level, pixel_count(step)));
  }
}

}  // namespace slipstream::augment
