#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cuda/augment/program.h"
#include "transforms/adjust_math.h"

namespace slipstream::augment {

inline constexpr int kLevels = 256;

/// Properties of an image that a step needs before its first pixel. All members are 0 before the
/// first pixel of the image is added. Only integers are added and compared, so the order of pixels
/// does not change the result. Memory holds the first members only, as far as the steps of a plan
/// need them.
struct Statistics {
  std::int64_t sum;  ///< sum of the pixels' gray
  // The following are for each channel.
  std::uint32_t least[4];           ///< complement of ordered() of the smallest value
  std::uint32_t most[4];            ///< ordered() of the largest value
  std::uint32_t count[4][kLevels];  ///< number of pixels with each level
  std::uint8_t table[4][kLevels];   ///< new value of each level, computed from the rest
};

SLIPSTREAM_HOST_DEVICE inline const Statistics& statistics_at(const std::byte* memory) {
  return *reinterpret_cast<const Statistics*>(memory);
}

SLIPSTREAM_HOST_DEVICE inline Statistics& statistics_at(std::byte* memory) {
  return *reinterpret_cast<Statistics*>(memory);
}

/// Returns an integer above 0. Integers of floats are in the order of the floats.
/// REQUIRES: `value` is not NaN
SLIPSTREAM_HOST_DEVICE inline std::uint32_t ordered(float value) {
  constexpr std::uint32_t kSign = 0x80000000U;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// Returns the float of an ordered().
SLIPSTREAM_HOST_DEVICE inline float from_ordered(std::uint32_t order) {
  constexpr std::uint32_t kSign = 0x80000000U;
  return std::bit_cast<float>((order & kSign) != 0 ? order & ~kSign : ~order);
}

/// Returns the extremes of a channel. They are NaN if all of its values are.
SLIPSTREAM_HOST_DEVICE inline Extremes extremes(const Statistics& of, int channel) {
  return {from_ordered(~of.least[channel]), from_ordered(of.most[channel])};
}

/// Returns true if steps of this kind look up the new values of levels in Statistics::table.
constexpr bool has_table(StepKind kind) {
  return kind == StepKind::equalize || kind == StepKind::augment;
}

/// Returns true if an augmentation changes the values of each channel separately: StepKind::augment
/// then looks them up in the table.
SLIPSTREAM_HOST_DEVICE inline bool has_table(Augmentation kind) {
  return kind >= Augmentation::brightness && kind != Augmentation::color &&
         kind != Augmentation::sharpness;
}

/// Number of pixels of the image before a step.
SLIPSTREAM_HOST_DEVICE inline std::int64_t pixel_count(const ProgramStep& step) {
  return static_cast<std::int64_t>(step.in_height) * step.in_width;
}

}  // namespace slipstream::augment
