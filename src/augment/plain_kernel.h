#pragma once

#include "augment/block.h"
#include "augment/load.h"
#include "augment/store.h"

// Device code: passes of images without a stencil.
namespace slipstream::augment {

/// Each thread makes four pixels of a row at a time.
template <int C, typename MakeRun>
__device__ __forceinline__ void make_tile(const PassProgram& pass, const PassMemory& memory,
                                          const LaunchShape& shape, const Tile& tile,
                                          std::byte* shared, const MakeRun& make_run) {
  const std::int32_t runs = shape.grid.width / 4;
  const std::int32_t x = tile.left + static_cast<std::int32_t>(threadIdx.x) % runs * 4;
  for (std::int32_t row = 0; row < shape.grid.height; row += kPlainThreads / runs) {
    const std::int32_t y = tile.top + row + static_cast<std::int32_t>(threadIdx.x) / runs;
    const bool is_mine = y < pass.out_height && x < pass.out_width;
    Pixel<C> run[4];
    if (is_mine) make_run(y, x, run);
    store_runs<C>(pass, memory, tile.image, y, x, is_mine, run, shared + shape.stores_at);
  }
}

/// One tile.
template <int C, Way kWay>
__device__ __forceinline__ void plain_block(const PassProgram& pass, const PassMemory& memory,
                                            const LaunchShape& shape) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ BlockState state;
  const Grid& grid = shape.grid;
  const Tile tile = tile_of(grid);
  const Box wanted = clipped({tile.top, tile.left, tile.top + grid.height, tile.left + grid.width},
                             pass.out_height, pass.out_width);
  const Image image = begin_block<C, kWay>(pass, memory, shape, tile, wanted, shared, state);
  if constexpr (kWay == Way::direct) {
    if (pass.has_plain_moves && pass.out_width % 4 == 0) {
      return make_tile<C>(pass, memory, shape, tile, shared,
                          [&](std::int32_t y, std::int32_t x, Pixel<C>(&run)[4]) {
                            load_run<C>(image, y, x, run);
                            advance_plain<C, 4>(image, y, x, run);
                          });
    }
  }
  with_pixels<C, kWay>(image, state, shape, shared + memory.drawn_bytes, [&](const auto& pixel_at) {
    make_tile<C>(pass, memory, shape, tile, shared,
                 [&](std::int32_t y, std::int32_t x, Pixel<C>(&run)[4]) {
                   for (int k = 0; k < 4; ++k) run[k] = pixel_at(y, min(x + k, pass.out_width - 1));
                 });
  });
}

}  // namespace slipstream::augment
