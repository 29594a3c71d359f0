#pragma once

#include "cuda/augment/staged.h"

// Device code: the work of a block before its pixels.
namespace slipstream::augment {

/// State that the threads of a block share.
struct BlockState {
  Prepared prepared;
  Stage stage;
};

/// Reads the sample's parameters and the source pixels for `wanted`, which is inside the image.
/// Called by all threads of a block; contains barriers. `shared` holds the parameters, then the
/// values computed from the source.
template <int C, Way kWay>
__device__ __forceinline__ Image begin_block(const PassProgram& pass, const PassMemory& memory,
                                             const LaunchShape& shape, const Tile& tile,
                                             const Box& wanted, std::byte* shared,
                                             BlockState& state) {
  share_drawn(memory, tile.image, shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    prepare(pass, memory, tile.image, shared, state.prepared);
    if constexpr (kWay != Way::direct) {
      lay_out<kWay>(pass, shared, state.prepared, wanted, shape.room, C, state.stage);
    }
  }
  __syncthreads();
  Image image{pass, shared, state.prepared, source_of_image(pass, memory, tile.image, C), {}};
  std::byte* behind = shared + memory.drawn_bytes;
  if constexpr (kWay != Way::direct) {
    if (shape.always_fits || state.stage.fits) {
      fill_stage<C, kWay>(image, state.stage, shape.room, stage_memory(shape.room, behind));
    }
  } else if (pass.has_plain_moves && pass.mask >= 0) {
    image.mask =
        counted_out(pass.steps[pass.mask], shared, wanted, reinterpret_cast<std::uint8_t*>(behind));
  }
  return image;
}

/// Calls use(pixel), where pixel(y, x) computes a pixel before the stencil.
template <int C, Way kWay, typename Use>
__device__ __forceinline__ void with_pixels(const Image& image, const BlockState& state,
                                            const LaunchShape& shape, std::byte* shared,
                                            const Use& use) {
  const PassProgram& pass = image.pass;
  if constexpr (kWay == Way::direct) {
    if (pass.has_plain_moves) {
      return use([&](std::int32_t y, std::int32_t x) { return plain_pixel<C>(image, y, x); });
    }
  } else {
    if (shape.always_fits || state.stage.fits) {
      const StageMemory memory = stage_memory(shape.room, shared);
      const Staged<C, kWay> staged(image, state.stage, shape.room, memory);
      return use([&](std::int32_t y, std::int32_t x) { return staged.at(y, x); });
    }
  }
  use([&](std::int32_t y, std::int32_t x) {
    return pixel_before<C, kWay != Way::direct>(image, pass.stencil, y, x);
  });
}

}  // namespace slipstream::augment
