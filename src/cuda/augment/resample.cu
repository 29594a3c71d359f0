#include <algorithm>
#include <cstdint>

#include "core/round_up.h"
#include "cuda/augment/resample.h"
#include "transforms/resize_filter.h"

namespace slipstream::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kImagesOfALaunch = 64;
constexpr int kRowsOfABlock = 8;
constexpr std::size_t kAlignment = 256;

/// One image while it is resized. Offsets are into the scratch memory.
struct Image {
  const std::uint8_t* pixels;
  std::int64_t row_bytes;
  std::size_t across;    ///< weights of its columns, see Weights
  std::size_t down;      ///< weights of its rows
  std::size_t narrowed;  ///< its rows at their new width, four bytes per pixel
  std::int32_t height;
  std::int32_t width;
  std::uint32_t place;
  bool flips_across;
  bool flips_down;
};

struct Images {
  Image all[kImagesOfALaunch];
  std::int32_t height;
  std::int32_t width;
};
static_assert(sizeof(Images) <= 4096, "the parameters of a kernel are at most 4 KiB");

/// The weights of `out` outputs along one axis: first input and number of inputs of each output,
/// then one weight of each output for the first input, for the second, and so on. In this order,
/// adjacent threads read adjacent weights.
struct Weights {
  std::int32_t* first;
  std::int32_t* count;
  std::int32_t* weight;

  __device__ Weights(std::byte* memory, std::int32_t out)
      : first(reinterpret_cast<std::int32_t*>(memory)), count(first + out), weight(count + out) {}
};

std::size_t weights_bytes(std::int64_t in, std::int64_t out) {
  const auto inputs =
      static_cast<std::size_t>(ResizeFilter(FilterKind::triangle, in, out).most_inputs());
  return round_up(sizeof(std::int32_t) * static_cast<std::size_t>(out) * (2 + inputs), kAlignment);
}

std::size_t narrowed_bytes(const Region& region, std::int64_t width) {
  return round_up(static_cast<std::size_t>(region.height * width) * sizeof(uchar4), kAlignment);
}

std::size_t scratch_bytes(const ImageSource& source, std::int64_t height, std::int64_t width) {
  return weights_bytes(source.region.width, width) + weights_bytes(source.region.height, height) +
         narrowed_bytes(source.region, width);
}

__device__ void weigh(std::byte* memory, std::int32_t in, std::int32_t out, std::int32_t i) {
  const ResizeFilter filter(FilterKind::triangle, in, out);
  const Weights weights(memory, out);
  const std::int64_t begin = filter.begin(i);
  const std::int64_t end = filter.end(i);
  const double sum = filter.sum(i);
  weights.first[i] = static_cast<std::int32_t>(begin);
  weights.count[i] = static_cast<std::int32_t>(end - begin);
  std::int32_t* to = weights.weight + i;
  for (std::int64_t at = begin; at < end; ++at, to += out) *to = filter.weight(i, at, sum);
}

__global__ void __launch_bounds__(kThreads)
    weights_kernel(const __grid_constant__ Images images, std::byte* scratch) {
  const Image& image = images.all[blockIdx.y];
  const auto i = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i < images.width) {
    weigh(scratch + image.across, image.width, images.width, i);
  } else if (i < images.width + images.height) {
    weigh(scratch + image.down, image.height, images.height, i - images.width);
  }
}

struct Sums {
  std::int32_t red = 1 << (ResizeFilter::kFractionBits - 1);
  std::int32_t green = red;
  std::int32_t blue = red;

  __device__ void add(std::int32_t weight, std::uint8_t r, std::uint8_t g, std::uint8_t b) {
    red += weight * r;
    green += weight * g;
    blue += weight * b;
  }
  __device__ static unsigned char level(std::int32_t sum) {
    return static_cast<unsigned char>(min(max(sum >> ResizeFilter::kFractionBits, 0), 255));
  }
  __device__ uchar4 levels() const { return {level(red), level(green), level(blue), 0}; }
};

__global__ void __launch_bounds__(kThreads)
    across_kernel(const __grid_constant__ Images images, std::byte* scratch) {
  const Image& image = images.all[blockIdx.y];
  const auto begin = static_cast<std::int32_t>(blockIdx.x) * kRowsOfABlock;
  const std::int32_t end = min(begin + kRowsOfABlock, image.height);
  if (begin >= end) return;
  const Weights weights(scratch + image.across, images.width);
  auto* narrowed = reinterpret_cast<uchar4*>(scratch + image.narrowed);
  for (auto x = static_cast<std::int32_t>(threadIdx.x); x < images.width; x += kThreads) {
    const std::int32_t count = weights.count[x];
    const std::uint8_t* row = image.pixels + begin * image.row_bytes + 3 * weights.first[x];
    for (std::int32_t y = begin; y < end; ++y, row += image.row_bytes) {
      Sums sums;
      const std::int32_t* weight = weights.weight + x;
      for (std::int32_t tap = 0; tap < count; ++tap, weight += images.width) {
        sums.add(*weight, row[3 * tap], row[3 * tap + 1], row[3 * tap + 2]);
      }
      narrowed[static_cast<std::int64_t>(y) * images.width + x] = sums.levels();
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    down_kernel(const __grid_constant__ Images images, const std::byte* scratch, std::uint8_t* to) {
  const Image& image = images.all[blockIdx.y];
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t pixels = std::int64_t{images.width} * images.height;
  if (index >= pixels) return;
  const auto y = static_cast<std::int32_t>(index / images.width);
  const auto x = static_cast<std::int32_t>(index - std::int64_t{y} * images.width);
  const Weights weights(const_cast<std::byte*>(scratch) + image.down, images.height);
  const auto* column = reinterpret_cast<const uchar4*>(scratch + image.narrowed) +
                       static_cast<std::int64_t>(weights.first[y]) * images.width + x;
  const std::int32_t count = weights.count[y];
  const std::int32_t* weight = weights.weight + y;
  Sums sums;
  for (std::int32_t tap = 0; tap < count; ++tap) {
    const uchar4 pixel = column[static_cast<std::int64_t>(tap) * images.width];
    sums.add(weight[static_cast<std::int64_t>(tap) * images.height], pixel.x, pixel.y, pixel.z);
  }
  const uchar4 levels = sums.levels();
  const std::int32_t out_y = image.flips_down ? images.height - 1 - y : y;
  const std::int32_t out_x = image.flips_across ? images.width - 1 - x : x;
  std::uint8_t* out =
      to + 3 * (image.place * pixels + static_cast<std::int64_t>(out_y) * images.width + out_x);
  out[0] = levels.x;
  out[1] = levels.y;
  out[2] = levels.z;
}

unsigned blocks_for(std::int64_t items, std::int64_t of_a_block) {
  return static_cast<unsigned>((items + of_a_block - 1) / of_a_block);
}

void launch(std::span<const ImageSource> sources, std::int64_t height, std::int64_t width,
            std::byte* scratch, std::byte* to, cudaStream_t stream) {
  Images images{};
  images.height = static_cast<std::int32_t>(height);
  images.width = static_cast<std::int32_t>(width);
  std::size_t at = 0;
  std::int64_t most_rows = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const ImageSource& source = sources[i];
    const Region& region = source.region;
    const std::byte* first = source.pixels + region.top * source.row_bytes + 3 * region.left;
    Image& image = images.all[i];
    image.pixels = reinterpret_cast<const std::uint8_t*>(first);
    image.row_bytes = source.row_bytes;
    image.across = at;
    image.down = image.across + weights_bytes(region.width, width);
    image.narrowed = image.down + weights_bytes(region.height, height);
    image.height = static_cast<std::int32_t>(region.height);
    image.width = static_cast<std::int32_t>(region.width);
    image.place = static_cast<std::uint32_t>(source.place);
    image.flips_across = source.flips_across;
    image.flips_down = source.flips_down;
    at += scratch_bytes(source, height, width);
    most_rows = std::max(most_rows, region.height);
  }
  const auto count = static_cast<unsigned>(sources.size());
  const auto grid = [&](std::int64_t items, std::int64_t of_a_block) {
    return dim3(blocks_for(items, of_a_block), count);
  };
  weights_kernel<<<grid(width + height, kThreads), kThreads, 0, stream>>>(images, scratch);
  check_cuda(cudaGetLastError());
  across_kernel<<<grid(most_rows, kRowsOfABlock), kThreads, 0, stream>>>(images, scratch);
  check_cuda(cudaGetLastError());
  down_kernel<<<grid(height * width, kThreads), kThreads, 0, stream>>>(
      images, scratch, reinterpret_cast<std::uint8_t*>(to));
  check_cuda(cudaGetLastError());
}

/// Calls `take` with every group of sources that share a launch.
template <typename Take>
void for_each_launch(std::span<const ImageSource> sources, Take take) {
  while (!sources.empty()) {
    const std::size_t count = std::min(sources.size(), kImagesOfALaunch);
    take(sources.first(count));
    sources = sources.subspan(count);
  }
}

}  // namespace

// Launches run one after another on the stream, so they share the memory.
std::size_t resample_scratch_bytes(std::span<const ImageSource> sources, std::int64_t height,
                                   std::int64_t width) {
  std::size_t most = 0;
  for_each_launch(sources, [&](std::span<const ImageSource> group) {
    std::size_t bytes = 0;
    for (const ImageSource& source : group) bytes += scratch_bytes(source, height, width);
    most = std::max(most, bytes);
  });
  return most;
}

void resample_async(std::span<const ImageSource> sources, std::int64_t height, std::int64_t width,
                    std::byte* scratch, std::byte* to, StreamView stream) {
  for_each_launch(sources, [&](std::span<const ImageSource> group) {
    launch(group, height, width, scratch, to, stream.get());
  });
}

}  // namespace slipstream::cuda
