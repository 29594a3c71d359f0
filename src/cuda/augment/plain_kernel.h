#pragma once

#include "cuda/augment/block.h"
#include "cuda/augment/load.h"
#include "cuda/augment/store.h"

// Device code: passes of images without a stencil.
namespace slipstream::augment {

/// Four pixels of a thread: (y, x + k kApart).
template <int kApart>
struct Four {
  std::int32_t y;
  std::int32_t x;

  __device__ std::int32_t x_at(int k) const { return x + k * kApart; }
  __device__ bool begins_in(const PassProgram& pass) const {
    return y < pass.out_height && x < pass.out_width;
  }
};

/// Calls make_and_use(four) for a tile; the four pixels of a thread are adjacent in a row. Called
/// by all threads.
template <typename MakeAndUse>
__device__ __forceinline__ void each_run(const Grid& grid, const Tile& tile,
                                         const MakeAndUse& make_and_use) {
  const std::int32_t runs = grid.width / 4;
  const std::int32_t x = tile.left + static_cast<std::int32_t>(threadIdx.x) % runs * 4;
  for (std::int32_t row = 0; row < grid.height; row += kPlainThreads / runs) {
    make_and_use(Four<1>{tile.top + row + static_cast<std::int32_t>(threadIdx.x) / runs, x});
  }
}

/// Like each_run(), but a warp computes adjacent patches, if any of them is in the image.
template <typename MakeAndUse>
__device__ __forceinline__ void each_patch(const PassProgram& pass, const Grid& grid,
                                           const Tile& tile, const MakeAndUse& make_and_use) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int32_t across = grid.width / kPatchesWidth;
  const std::int32_t count = across * (grid.height / kPatchHeight);
  for (auto i = static_cast<std::int32_t>(threadIdx.x / 32); i < count; i += kPlainThreads / 32) {
    const std::int32_t top = tile.top + i / across * kPatchHeight;
    const std::int32_t left = tile.left + i % across * kPatchesWidth;
    if (top >= pass.out_height || left >= pass.out_width) continue;
    make_and_use(Four<kPatchWidth>{top + lane / kPatchWidth, left + lane % kPatchWidth});
  }
}

/// Calls use(image, four, run) for the pixels of one tile. If four pixels begin in the image, those
/// beyond it repeat the last pixel in the image.
template <int C, Way kWay, typename UseRun>
__device__ __forceinline__ void each_four_of_tile(const PassProgram& pass, const PassMemory& memory,
                                                  const LaunchShape& shape, const Tile& tile,
                                                  std::byte* shared, const UseRun& use) {
  __shared__ BlockState state;
  const Grid& grid = shape.grid;
  const Box wanted = clipped({tile.top, tile.left, tile.top + grid.height, tile.left + grid.width},
                             pass.out_height, pass.out_width);
  const Image image = begin_block<C, kWay>(pass, memory, shape, tile, wanted, shared, state);
  if constexpr (kWay == Way::direct) {
    if (pass.has_plain_moves && pass.out_width % 4 == 0 && has_whole_words<C>(image)) {
      return each_run(grid, tile, [&](const Four<1>& four) {
        Pixel<C> run[4];
        if (four.begins_in(pass)) {
          load_run<C>(image, four.y, four.x, run);
          advance_plain<C, 4>(image, four.y, four.x, run);
        }
        use(image, four, run);
      });
    }
  }
  with_pixels<C, kWay>(image, state, shape, shared + memory.drawn_bytes, [&](const auto& pixel_at) {
    each_patch(pass, grid, tile, [&](const Four<kPatchWidth>& four) {
      Pixel<C> run[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        run[k] = pixel_at(min(four.y, pass.out_height - 1), min(four.x_at(k), pass.out_width - 1));
      }
      use(image, four, run);
    });
  });
}

template <int C>
__device__ __forceinline__ void store(const PassProgram& pass, const PassMemory& memory,
                                      std::int64_t image, const Four<1>& at,
                                      const Pixel<C> (&run)[4], std::byte* shared) {
  store_runs<C>(pass, memory, image, at.y, at.x, at.begins_in(pass), run, shared);
}

template <int C>
__device__ __forceinline__ void store(const PassProgram& pass, const PassMemory& memory,
                                      std::int64_t image, const Four<kPatchWidth>& at,
                                      const Pixel<C> (&run)[4], std::byte* shared) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  store_patches<C>(pass, memory, image, at.y - lane / kPatchWidth, at.x - lane % kPatchWidth, run,
                   shared);
}

template <int C, Way kWay>
__device__ __forceinline__ void plain_block(const PassProgram& pass, const PassMemory& memory,
                                            const LaunchShape& shape) {
  extern __shared__ __align__(16) std::byte shared[];
  const Tile tile = block_tile(shape.grid);
  each_four_of_tile<C, kWay>(pass, memory, shape, tile, shared,
                             [&](const Image&, const auto& four, const Pixel<C>(&run)[4]) {
                               store<C>(pass, memory, tile.image, four, run,
                                        shared + shape.stores_at);
                             });
}

}  // namespace slipstream::augment
