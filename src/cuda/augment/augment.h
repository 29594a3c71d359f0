#pragma once

#include <cstddef>
#include <memory>

#include "cuda/cuda.h"
#include "transforms/device_chain.h"

namespace slipstream {

enum class ImageLayout : std::uint8_t { channels_last, channels_first };

/// How the images of a batch leave a chain; within an image there are no gaps.
struct AugmentOutput {
  ImageLayout layout = ImageLayout::channels_last;
  bool bf16 = false;  ///< float32 are rounded, halves to even
};

/// A DeviceChain for one field, planned into few kernels: moves of pixels (crops, flips, nearest
/// neighbors) are composed into where one interpolation reads, arithmetic of single pixels is
/// fused into it, and a blur follows in shared memory: all that is one launch. A second
/// interpolation, a move behind a blur or a second blur begins another, and so does the 25th step.
/// Masks take one for each 24 steps.
class AugmentPlan {
 public:
  /// Throws Refused, naming the transform, where an operation has no device form or an image is too
  /// large (16,384 pixels a side); Error, with the compiler's words too, where a user's pixel
  /// function (pixel_op.h) does not compile for the device.
  AugmentPlan(const DeviceChain& chain, std::size_t field, AugmentOutput output = {});

  /// Compiles kernels for this plan and the current device, which takes seconds (NVRTC). A plan for
  /// images must be specialized before it runs; for masks this does nothing. Throws Error with the
  /// compiler's words.
  void specialize();

  std::size_t launches() const;
  /// Device memory that a batch needs, aligned to 256.
  std::size_t scratch_bytes(std::size_t batch_size) const;

  struct Program;
  const Program& program() const { return *program_; }

 private:
  std::shared_ptr<const Program> program_;
};

namespace cuda {

/// Runs a plan for `batch_size` images. All memory is on the device and aligned to 256: `images`
/// (height x width x channels each, or masks, without gaps), `drawn` (DeviceChain::drawn_bytes() a
/// sample, as draw() wrote them), `scratch` (AugmentPlan::scratch_bytes()), `to`. Asynchronous on
/// `stream`. A block of zeros in `drawn` gives some image of `images`' pixels. The bits are those
/// of DeviceChain::apply(); with bf16, of that, rounded. Throws Error for a plan for images that
/// is not specialized.
void augment_async(const AugmentPlan& plan, std::size_t batch_size, const std::byte* images,
                   const std::byte* drawn, std::byte* scratch, std::byte* to, StreamView stream);

}  // namespace cuda
}  // namespace slipstream
