#pragma once

#include "augment/block.h"
#include "augment/load.h"
#include "augment/store.h"

// Device code: passes of images without a stencil.
namespace slipstream::augment {

/// Calls use(y, x, is_mine, run) for what make_run(y, x, run) makes of a tile: each thread four
/// pixels of a row at a time, of which the first lies in the image if they are its own. By all
/// threads.
template <int C, typename MakeRun, typename UseRun>
__device__ __forceinline__ void each_run(const PassProgram& pass, const Grid& grid,
                                         const Tile& tile, const MakeRun& make_run,
                                         const UseRun& use) {
  const std::int32_t runs = grid.width / 4;
  const std::int32_t x = tile.left + static_cast<std::int32_t>(threadIdx.x) % runs * 4;
  for (std::int32_t row = 0; row < grid.height; row += kPlainThreads / runs) {
    const std::int32_t y = tile.top + row + static_cast<std::int32_t>(threadIdx.x) / runs;
    const bool is_mine = y < pass.out_height && x < pass.out_width;
    Pixel<C> run[4];
    if (is_mine) make_run(y, x, run);
    use(y, x, is_mine, run);
  }
}

/// Calls use(image, y, x, is_mine, run) for the pixels of one tile; those of a run beyond the image
/// are the last in it.
template <int C, Way kWay, typename UseRun>
__device__ __forceinline__ void each_run_of_tile(const PassProgram& pass, const PassMemory& memory,
                                                 const LaunchShape& shape, const Tile& tile,
                                                 std::byte* shared, const UseRun& use) {
  __shared__ BlockState state;
  const Grid& grid = shape.grid;
  const Box wanted = clipped({tile.top, tile.left, tile.top + grid.height, tile.left + grid.width},
                             pass.out_height, pass.out_width);
  const Image image = begin_block<C, kWay>(pass, memory, shape, tile, wanted, shared, state);
  const auto use_run = [&](std::int32_t y, std::int32_t x, bool is_mine, const Pixel<C>(&run)[4]) {
    use(image, y, x, is_mine, run);
  };
  if constexpr (kWay == Way::direct) {
    if (pass.has_plain_moves && pass.out_width % 4 == 0 && has_whole_words<C>(image)) {
      return each_run<C>(
          pass, grid, tile,
          [&](std::int32_t y, std::int32_t x, Pixel<C>(&run)[4]) {
            load_run<C>(image, y, x, run);
            advance_plain<C, 4>(image, y, x, run);
          },
          use_run);
    }
  }
  with_pixels<C, kWay>(image, state, shape, shared + memory.drawn_bytes, [&](const auto& pixel_at) {
    each_run<C>(
        pass, grid, tile,
        [&](std::int32_t y, std::int32_t x, Pixel<C>(&run)[4]) {
          for (int k = 0; k < 4; ++k) run[k] = pixel_at(y, min(x + k, pass.out_width - 1));
        },
        use_run);
  });
}

/// One tile.
template <int C, Way kWay>
__device__ __forceinline__ void plain_block(const PassProgram& pass, const PassMemory& memory,
                                            const LaunchShape& shape) {
  extern __shared__ __align__(16) std::byte shared[];
  const Tile tile = tile_of(shape.grid);
  each_run_of_tile<C, kWay>(
      pass, memory, shape, tile, shared,
      [&](const Image&, std::int32_t y, std::int32_t x, bool is_mine, const Pixel<C>(&run)[4]) {
        store_runs<C>(pass, memory, tile.image, y, x, is_mine, run, shared + shape.stores_at);
      });
}

}  // namespace slipstream::augment
