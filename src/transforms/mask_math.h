#pragma once

#include <cstdint>

#include "slipstream/core/philox.h"
#include "slipstream/transforms/drawn.h"

// Selects the pixels that RandomMask and RandomErasing (masking.h) change, for both the CPU and the
// GPU.
namespace slipstream {

/// Pixels of a row that share a block of random bits.
constexpr std::int32_t kMaskPixels = 8;

/// Number of blocks in a row. Pixels 8 b to 8 b + 7 of row y use the random words of block y
/// blocks_of_row(width) + b.
SLIPSTREAM_HOST_DEVICE inline std::int64_t blocks_of_row(std::int64_t width) {
  return (width + kMaskPixels - 1) / kMaskPixels;
}

SLIPSTREAM_HOST_DEVICE inline PhiloxWords mask_words(const RandomWords& key, std::uint32_t block) {
  return random_block(key, block);
}

/// Returns a bit mask: bit k is 1 if the block's pixel k is masked, because its 16 random bits are
/// below `threshold` (0 to 65,536). Pixel k uses word k / 2: the low half if k is even, the high
/// half if it is odd.
SLIPSTREAM_HOST_DEVICE inline std::uint32_t mask_bits(const PhiloxWords& words,
                                                      std::uint32_t threshold) {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t low = (words.word[i] & 0xFFFFU) < threshold ? 1U : 0U;
    const std::uint32_t high = (words.word[i] >> 16) < threshold ? 2U : 0U;
    bits |= (low | high) << (2 * i);
  }
  return bits;
}

/// Dilates the bits of masked pixels by their neighbors in the row. The adjacent blocks hold pixel
/// -1 and pixel 8.
SLIPSTREAM_HOST_DEVICE inline std::uint32_t grown_bits(std::uint32_t before, std::uint32_t bits,
                                                       std::uint32_t after) {
  return (bits | bits << 1 | bits >> 1 | before >> 7 | after << 7) & 0xFFU;
}

SLIPSTREAM_HOST_DEVICE inline bool is_erased(const DrawnErasing& drawn, std::int32_t y,
                                             std::int32_t x) {
  return y >= drawn.top && y - drawn.top < drawn.height && x >= drawn.left &&
         x - drawn.left < drawn.width;
}

}  // namespace slipstream
