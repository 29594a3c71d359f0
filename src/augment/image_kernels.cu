#include <algorithm>

#include "augment/evaluate.h"
#include "augment/kernels.h"
#include "slipstream/error.h"
#include "slipstream/half.h"

namespace slipstream::augment {
namespace {

constexpr int kThreads = 256;
/// Without a stencil a thread makes so many pixels of a row.
constexpr int kRun = 4;
constexpr int kPlainWidth = 64;
constexpr int kPlainHeight = kThreads / (kPlainWidth / kRun);
/// With one, a block makes a square of this side.
constexpr int kStencilSide = 32;
constexpr std::size_t kSharedWithoutAsking = 48 << 10;

struct Tile {
  std::int32_t top;
  std::int32_t left;
  std::int64_t image;
};

struct Grid {
  std::int32_t across;
  std::int32_t tiles;  ///< of an image
  std::int32_t width;  ///< of a tile
  std::int32_t height;
};

__device__ Tile tile_of(const Grid& grid) {
  const auto image = static_cast<std::int64_t>(blockIdx.x / static_cast<unsigned>(grid.tiles));
  const auto tile = static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(grid.tiles));
  return {tile / grid.across * grid.height, tile % grid.across * grid.width, image};
}

__device__ std::int64_t values_of(std::int32_t height, std::int32_t width, int channels) {
  return static_cast<std::int64_t>(height) * width * channels;
}

/// The sample's parameters, where every thread finds them soon.
__device__ void share_drawn(const PassMemory& memory, std::int64_t image, std::byte* shared) {
  const std::byte* from = memory.drawn + image * memory.drawn_bytes;
  for (unsigned i = threadIdx.x * 16; i < memory.drawn_bytes; i += kThreads * 16) {
    *reinterpret_cast<uint4*>(shared + i) = *reinterpret_cast<const uint4*>(from + i);
  }
}

__device__ Source source_of_image(const PassProgram& pass, const PassMemory& memory,
                                  std::int64_t image, int channels) {
  const std::int64_t bytes =
      values_of(pass.in_height, pass.in_width, channels) * (memory.range == Range::levels ? 1 : 4);
  return {memory.images + image * bytes, memory.range, pass.in_width};
}

__device__ void store(const PassMemory& memory, std::int64_t at, float value) {
  switch (memory.stored) {
    case Stored::u8:
      reinterpret_cast<std::uint8_t*>(memory.to)[at] = static_cast<std::uint8_t>(value);
      return;
    case Stored::bf16:
      reinterpret_cast<std::uint16_t*>(memory.to)[at] = to_bf16(value);
      return;
    case Stored::f32:
      reinterpret_cast<float*>(memory.to)[at] = value;
  }
}

template <int C>
__device__ void store(const PassProgram& pass, const PassMemory& memory, std::int64_t image,
                      std::int32_t y, std::int32_t x, const Pixel<C>& pixel) {
  const bool is_last = memory.layout == ImageLayout::channels_last;
  const std::int64_t plane = values_of(pass.out_height, pass.out_width, 1);
  const std::int64_t place = static_cast<std::int64_t>(y) * pass.out_width + x;
  const std::int64_t first = image * plane * C + (is_last ? place * C : place);
  const std::int64_t apart = is_last ? 1 : plane;
  for (int c = 0; c < C; ++c) store(memory, first + c * apart, pixel.value[c]);
}

template <int C, bool kInterpolates>
__global__ void __launch_bounds__(kThreads) plain_kernel(const __grid_constant__ PassProgram pass,
                                                         const PassMemory memory, const Grid grid) {
  extern __shared__ __align__(16) std::byte drawn[];
  __shared__ Prepared prepared;
  const Tile tile = tile_of(grid);
  share_drawn(memory, tile.image, drawn);
  __syncthreads();
  if (threadIdx.x == 0) prepared = prepared_for(pass, drawn);
  __syncthreads();
  constexpr int kRuns = kPlainWidth / kRun;
  const std::int32_t y = tile.top + static_cast<std::int32_t>(threadIdx.x) / kRuns;
  const std::int32_t first = tile.left + static_cast<std::int32_t>(threadIdx.x) % kRuns;
  if (y >= pass.out_height) return;
  const Image image{pass, drawn, prepared, source_of_image(pass, memory, tile.image, C)};
  for (int i = 0; i < kRun; ++i) {
    const std::int32_t x = first + i * kRuns;
    if (x >= pass.out_width) return;
    const Pixel<C> pixel = pixel_before_stencil<C, kInterpolates>(image, y, x);
    store<C>(pass, memory, tile.image, y, x, pixel);
  }
}

/// What a blurring block holds: planes of values before it, and of values filtered across.
struct Planes {
  float* wide;
  float* narrow;
  std::int32_t rows;   ///< of both
  std::int32_t pitch;  ///< of wide; narrow has the tile's width
};

template <int C, bool kInterpolates>
__device__ void fill_wide(const Image& image, const Tile& tile, std::int32_t radius,
                          const Planes& planes) {
  const PassProgram& pass = image.pass;
  const std::int32_t count = planes.rows * planes.pitch;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
    const std::int32_t row = i / planes.pitch;
    const std::int32_t y = tile.top + row - radius;
    const std::int32_t x = tile.left + (i - row * planes.pitch) - radius;
    if (y >= pass.out_height + radius || x >= pass.out_width + radius) continue;
    const Pixel<C> pixel = pixel_before_stencil<C, kInterpolates>(
        image, mirrored(y, pass.out_height), mirrored(x, pass.out_width));
    for (int c = 0; c < C; ++c) planes.wide[c * count + i] = pixel.value[c];
  }
}

/// Sums of 2 radius + 1 values, `apart` from each other, for kRun outputs in a row.
template <int R>
__device__ void filter_run(const DrawnBlur& blur, std::int32_t radius, const float* from,
                           std::int32_t apart, float (&sums)[kRun]) {
  const std::int32_t reach = R > 0 ? R : radius;
  const float outermost = blur.weight[reach];
#pragma unroll
  for (int i = 0; i < kRun; ++i) sums[i] = outermost * from[i * apart];
#pragma unroll
  for (std::int32_t tap = 1; tap <= 2 * reach; ++tap) {
    const float weight = blur.weight[tap < reach ? reach - tap : tap - reach];
#pragma unroll
    for (int i = 0; i < kRun; ++i) sums[i] = fused(weight, from[(tap + i) * apart], sums[i]);
  }
}

template <int C, int R>
__device__ void filter_across(const DrawnBlur& blur, std::int32_t radius, std::int32_t side,
                              const Planes& planes) {
  const std::int32_t runs = side / kRun;
  const std::int32_t count = C * planes.rows * runs;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
    const std::int32_t row = i / runs;  // of all planes
    const std::int32_t x = (i - row * runs) * kRun;
    float sums[kRun];
    filter_run<R>(blur, radius, planes.wide + row * planes.pitch + x, 1, sums);
    for (int k = 0; k < kRun; ++k) planes.narrow[row * side + x + k] = sums[k];
  }
}

template <int C, int R>
__device__ void filter_down(const PassProgram& pass, const PassMemory& memory,
                            const DrawnBlur& blur, const Tile& tile, std::int32_t radius,
                            std::int32_t side, const Planes& planes) {
  const bool is_levels = pass.steps[pass.stencil].range == Range::levels;
  const std::int32_t count = side / kRun * side;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
    const std::int32_t x = i % side;
    const std::int32_t y = i / side * kRun;
    float sums[C][kRun];
    for (int c = 0; c < C; ++c) {
      const float* from = planes.narrow + (c * planes.rows + y) * side + x;
      filter_run<R>(blur, radius, from, side, sums[c]);
    }
    for (int k = 0; k < kRun; ++k) {
      if (tile.top + y + k >= pass.out_height || tile.left + x >= pass.out_width) continue;
      Pixel<C> pixel;
      for (int c = 0; c < C; ++c) pixel.value[c] = is_levels ? to_level(sums[c][k]) : sums[c][k];
      go_through<C>(pass, pass.stencil + 1, pass.count, pixel);
      store<C>(pass, memory, tile.image, tile.top + y + k, tile.left + x, pixel);
    }
  }
}

template <int C, bool kInterpolates, int R>
__global__ void __launch_bounds__(kThreads) blur_kernel(const __grid_constant__ PassProgram pass,
                                                        const PassMemory memory, const Grid grid) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ Prepared prepared;
  const Tile tile = tile_of(grid);
  const ProgramStep& step = pass.steps[pass.stencil];
  const std::int32_t radius = R > 0 ? R : step.radius;
  const std::int32_t side = R > 0 ? kStencilSide : grid.width;
  Planes planes;
  planes.rows = planes.pitch = side + 2 * radius;
  planes.wide = reinterpret_cast<float*>(shared + memory.drawn_bytes);
  planes.narrow = planes.wide + C * planes.rows * planes.pitch;
  share_drawn(memory, tile.image, shared);
  __syncthreads();
  if (threadIdx.x == 0) prepared = prepared_for(pass, shared);
  __syncthreads();
  const Image image{pass, shared, prepared, source_of_image(pass, memory, tile.image, C)};
  fill_wide<C, kInterpolates>(image, tile, radius, planes);
  __syncthreads();
  const DrawnBlur& blur = drawn_at<DrawnBlur>(step, shared);
  filter_across<C, R>(blur, radius, side, planes);
  __syncthreads();
  filter_down<C, R>(pass, memory, blur, tile, radius, side, planes);
}

Grid grid_for(const PassProgram& pass, std::int32_t width, std::int32_t height) {
  const std::int32_t across = (pass.out_width + width - 1) / width;
  const std::int32_t down = (pass.out_height + height - 1) / height;
  return {across, across * down, width, height};
}

unsigned blocks_of(const Grid& grid, std::size_t batch_size) {
  return static_cast<unsigned>(static_cast<std::size_t>(grid.tiles) * batch_size);
}

template <int C, bool kInterpolates>
void launch_plain(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                  cudaStream_t stream) {
  const Grid grid = grid_for(pass, kPlainWidth, kPlainHeight);
  plain_kernel<C, kInterpolates>
      <<<blocks_of(grid, batch_size), kThreads, memory.drawn_bytes, stream>>>(pass, memory, grid);
  cuda::check_cuda(cudaGetLastError());
}

template <int C>
std::size_t shared_bytes(std::int32_t side, std::int32_t radius, std::size_t drawn_bytes) {
  const auto rows = static_cast<std::size_t>(side + 2 * radius);
  return drawn_bytes + C * rows * (rows + static_cast<std::size_t>(side)) * sizeof(float);
}

std::size_t most_shared_bytes() {
  int device = 0;
  int bytes = 0;
  cuda::check_cuda(cudaGetDevice(&device));
  cuda::check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(bytes);
}

template <int C, bool kInterpolates, int R>
void launch_blur(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                 cudaStream_t stream) {
  const auto kernel = blur_kernel<C, kInterpolates, R>;
  const std::int32_t radius = pass.steps[pass.stencil].radius;
  std::int32_t side = kStencilSide;
  std::size_t bytes = shared_bytes<C>(side, radius, memory.drawn_bytes);
  if (bytes > kSharedWithoutAsking) {
    const std::size_t most = most_shared_bytes();
    for (; R == 0 && bytes > most && side > kRun; side /= 2) {
      bytes = shared_bytes<C>(side / 2, radius, memory.drawn_bytes);
    }
    cuda::check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(bytes)));
  }
  const Grid grid = grid_for(pass, side, side);
  kernel<<<blocks_of(grid, batch_size), kThreads, bytes, stream>>>(pass, memory, grid);
  cuda::check_cuda(cudaGetLastError());
}

template <int C, bool kInterpolates>
void launch(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
            cudaStream_t stream) {
  if (pass.stencil == pass.count) {
    return launch_plain<C, kInterpolates>(pass, memory, batch_size, stream);
  }
  if (pass.steps[pass.stencil].radius == 3) {
    return launch_blur<C, kInterpolates, 3>(pass, memory, batch_size, stream);
  }
  launch_blur<C, kInterpolates, 0>(pass, memory, batch_size, stream);
}

template <int C>
void launch(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
            cudaStream_t stream) {
  pass.interpolation >= 0 ? launch<C, true>(pass, memory, batch_size, stream)
                          : launch<C, false>(pass, memory, batch_size, stream);
}

}  // namespace

void launch_images(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                   std::int32_t channels, cudaStream_t stream) {
  switch (channels) {
    case 1:
      return launch<1>(pass, memory, batch_size, stream);
    case 2:
      return launch<2>(pass, memory, batch_size, stream);
    case 3:
      return launch<3>(pass, memory, batch_size, stream);
    case 4:
      return launch<4>(pass, memory, batch_size, stream);
    default:
      ensure(false, "images on the device have 1 to 4 channels");
  }
}

}  // namespace slipstream::augment
