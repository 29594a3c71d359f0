#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/core/array.h"
#include "slipstream/core/host_device.h"

// Mixing of images and labels with their partners' (batch_ops.h): definitions that the kernel and
// the CPU share.
namespace slipstream {

/// Random parameters of one sample. If there is no box, it is empty; right and bottom are
/// exclusive.
struct DrawnMix {
  float own = 1;    ///< weight of the sample's own label, and with MixUp of its own pixels
  float other = 0;  ///< 1 - own, the partner's weight
  std::int32_t top = 0, left = 0, bottom = 0, right = 0;  ///< CutMix's box
};

/// The kind of mixing, and the layout and type of the images and labels.
struct MixForm {
  enum class Images : std::uint8_t { none, blended, boxed };
  Images images = Images::none;
  DType dtype = DType::float32;  ///< type of the images: float32, or uint8 for CutMix
  bool bf16 = false;             ///< float32 results are rounded to bfloat16, ties to even
  bool planar = false;           ///< channels are first instead of last
  std::int64_t height = 0, width = 0, channels = 0;
  DType label = DType::int64;  ///< uint8, int32 or int64
  std::int64_t classes = 1;
  float on = 1;   ///< probability of the label's class
  float off = 0;  ///< probability of every other class

  std::int64_t elements() const { return height * width * channels; }
};

/// A batch: contiguous samples, each pointer aligned to 16 bytes. Memory that is written must not
/// overlap memory that is read.
struct MixBatch {
  std::int64_t size = 0;
  const DrawnMix* drawn = nullptr;  ///< one per sample; nullptr if nothing is mixed
  const void* images = nullptr;     ///< layout as in MixForm; not read if no images are mixed
  void* mixed = nullptr;
  /// One per sample; an index outside of the classes sets no probability.
  const void* labels = nullptr;
  float* targets = nullptr;  ///< size x classes
};

SLIPSTREAM_HOST_DEVICE inline std::int64_t mix_partner(std::int64_t sample, std::int64_t size) {
  return sample == 0 ? size - 1 : sample - 1;
}

SLIPSTREAM_HOST_DEVICE inline float mixed(float own, float partner, const DrawnMix& drawn) {
  return own * drawn.own + partner * drawn.other;
}

/// Returns the mixed probability of class `c`.
SLIPSTREAM_HOST_DEVICE inline float target(std::int64_t c, std::int64_t own, std::int64_t partner,
                                           const DrawnMix& drawn, const MixForm& form) {
  return mixed(c == own ? form.on : form.off, c == partner ? form.on : form.off, drawn);
}

/// Mixes a batch on the CPU, on the calling thread.
void mix(const MixForm& form, const MixBatch& batch);

}  // namespace slipstream
