#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/core/array.h"
#include "slipstream/core/host_device.h"

// Images and labels mixed with their partners' (batch_ops.h): what a kernel and the CPU share.
namespace slipstream {

/// What one sample draws. The box is empty where there is none; right and bottom are behind it.
struct DrawnMix {
  float own = 1;    ///< the sample's share of its label; of MixUp, of its pixels too
  float other = 0;  ///< 1 - own: the partner's
  std::int32_t top = 0, left = 0, bottom = 0, right = 0;  ///< of CutMix
};

/// What is done to the images of a batch, and their form.
struct MixForm {
  enum class Images : std::uint8_t { none, blended, boxed };
  Images images = Images::none;
  DType dtype = DType::float32;  ///< of the images: float32, or uint8 that are boxed
  bool bf16 = false;             ///< float32 are rounded in the end, halves to even
  bool planar = false;           ///< channels first instead of last
  std::int64_t height = 0, width = 0, channels = 0;
  DType label = DType::int64;  ///< uint8, int32 or int64
  std::int64_t classes = 1;
  float on = 1;   ///< probability of the label's class
  float off = 0;  ///< of every other

  std::int64_t elements() const { return height * width * channels; }
};

/// A batch: samples one after the other without gaps, each pointer aligned to 16. Nothing that is
/// written may overlap what is read.
struct MixBatch {
  std::int64_t size = 0;
  const DrawnMix* drawn = nullptr;  ///< one a sample; nullptr: nothing is mixed
  const void* images = nullptr;     ///< as the form says; not read without images
  void* mixed = nullptr;
  const void* labels = nullptr;  ///< one a sample; one that is not a class has no probability
  float* targets = nullptr;      ///< size x classes
};

SLIPSTREAM_HOST_DEVICE inline std::int64_t mix_partner(std::int64_t sample, std::int64_t size) {
  return sample == 0 ? size - 1 : sample - 1;
}

SLIPSTREAM_HOST_DEVICE inline float mixed(float own, float partner, const DrawnMix& drawn) {
  return own * drawn.own + partner * drawn.other;
}

/// The probability of class `c`.
SLIPSTREAM_HOST_DEVICE inline float target(std::int64_t c, std::int64_t own, std::int64_t partner,
                                           const DrawnMix& drawn, const MixForm& form) {
  return mixed(c == own ? form.on : form.off, c == partner ? form.on : form.off, drawn);
}

/// The CPU form.
void mix(const MixForm& form, const MixBatch& batch);

}  // namespace slipstream
