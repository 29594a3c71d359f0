#pragma once

#include <cstddef>
#include <memory>

#include "cuda/cuda.h"
#include "transforms/device_chain.h"

namespace slipstream {

enum class ImageLayout : std::uint8_t { channels_last, channels_first };

/// Output format of the images of a batch. Inside an image there are no gaps.
struct AugmentOutput {
  ImageLayout layout = ImageLayout::channels_last;
  bool bf16 = false;  ///< float32 results are rounded to bfloat16, ties to even
};

/// A DeviceChain for one field, planned into few kernels. Moves of pixels (crops, flips,
/// nearest-neighbor warps) are composed into the coordinates that one interpolation reads,
/// arithmetic on single pixels is fused into it, and a blur or sharpening follows in shared memory:
/// all of that is one launch. A second interpolation, a move after a blur or sharpening, or a
/// second of these starts another launch, and so does the 25th step. Operations that need
/// properties of the whole image, such as its mean gray, take additional launches before. Masks
/// take one launch for every 24 steps.
class AugmentPlan {
 public:
  /// Throws Refused with the transform if an operation has no device form or an image is too large
  /// (16,384 pixels per side). Throws Error with the compiler's messages if a user's pixel function
  /// (pixel_op.h) does not compile for the device.
  AugmentPlan(const DeviceChain& chain, std::size_t field, AugmentOutput output = {});

  /// Compiles kernels for this plan and the current device, which takes seconds (NVRTC). A plan for
  /// images must be specialized before it runs; for masks this does nothing. Throws Error with the
  /// compiler's messages.
  void specialize();

  std::size_t launches() const;
  /// Number of bytes of device memory, aligned to 256, that a batch needs.
  std::size_t scratch_bytes(std::size_t batch_size) const;

  struct Program;
  const Program& program() const { return *program_; }

 private:
  std::shared_ptr<const Program> program_;
};

namespace cuda {

/// Runs a plan for `batch_size` images. All memory is on the device and aligned to 256: `images`
/// (height x width x channels each, or masks, without gaps), `drawn` (DeviceChain::drawn_bytes()
/// per sample, as draw() wrote them), `scratch` (AugmentPlan::scratch_bytes()), `to`. Asynchronous
/// on `stream`. If a sample's block in `drawn` is all zeros, its result is some image made of
/// pixels of `images`; no memory access is out of bounds. The bits are those of
/// DeviceChain::apply(); with bf16, rounded. Throws Error for a plan for images that is not
/// specialized.
void augment_async(const AugmentPlan& plan, std::size_t batch_size, const std::byte* images,
                   const std::byte* drawn, std::byte* scratch, std::byte* to, StreamView stream);

}  // namespace cuda
}  // namespace slipstream
