#include <algorithm>
#include <cmath>
#include <string>

#include "core/number_text.h"
#include "core/round_up.h"
#include "cuda/augment/kernels.h"
#include "cuda/cuda.h"
#include "slipstream/core/error.h"
#include "transforms/mask_math.h"

namespace slipstream::augment {
namespace {

/// Returns the shared memory that a block may use if `blocks` blocks share a multiprocessor.
std::size_t most_shared_bytes(const DeviceLimits& limits, std::size_t blocks) {
  // CUDA reserves 1 KiB of shared memory for each block.
  constexpr std::size_t kOfTheSystem = 1024;
  constexpr std::size_t kOfTheKernel = 256;
  return std::min(limits.block_bytes, limits.processor_bytes / blocks - kOfTheSystem) -
         kOfTheKernel;
}

std::size_t mask_bytes(std::int32_t rows, std::int32_t columns) {
  const std::int32_t pitch = columns / kMaskPixels + 4;
  return static_cast<std::size_t>(pitch) * static_cast<std::size_t>(2 * rows + 2);
}

std::size_t stage_bytes(const StageSpace& room) {
  return table_bytes(room) + sizeof(float) * static_cast<std::size_t>(room.floats);
}

struct AreaSize {
  double rows;
  double columns;
};

/// Returns the size of the area that a rotation of `of` by any angle can need, with a margin.
AreaSize turned(const AreaSize& of) {
  const double most = std::hypot(of.rows, of.columns) + 4;
  return {most, most};
}

/// Returns the number of pixels that `made` outputs need on an axis that is resized from `in` to
/// `out`, including those on both sides of the outermost.
double needed(double made, double in, double out, double reach) {
  return made * in / out + 2 * reach + 1;
}

/// Returns the distance from an output's center to the farthest input on either side.
double reach(const ProgramStep& step, Way way, std::int32_t in, std::int32_t out) {
  if (way == Way::linear) return 1;
  return ResizeFilter(filter_kind(step.interpolation, step.antialias), in, out).reach();
}

/// Computes the capacity for `wanted` pixels before the stencil, in at most `most_bytes`.
StageSpace stage_room(const PassProgram& pass, std::int32_t channels, const AreaSize& wanted,
                      std::size_t most_bytes, LaunchShape& shape) {
  const Way way = choose_way(pass);
  const ProgramStep& step = pass.steps[pass.interpolation];
  AreaSize made = pass.turn >= 0 ? turned(wanted) : wanted;
  made = {std::min<double>(made.rows, step.out_height),
          std::min<double>(made.columns, step.out_width)};
  StageSpace room = {};
  AreaSize texels = turned(made);
  if (way != Way::warp) {
    const double down = reach(step, way, step.in_height, step.out_height);
    const double across = reach(step, way, step.in_width, step.out_width);
    texels = {needed(made.rows, step.in_height, step.out_height, down),
              needed(made.columns, step.in_width, step.out_width, across)};
    room.entries = static_cast<std::int32_t>(std::ceil(std::max(made.rows, made.columns)));
    const bool filters = way == Way::filter;
    room.taps = filters ? static_cast<std::int32_t>(2 * std::ceil(std::max(down, across)) + 1) : 0;
  }
  texels = {std::min(std::ceil(texels.rows), step.in_height + 2.0),
            std::min(std::ceil(texels.columns), step.in_width + 2.0)};
  const std::size_t tables = stage_bytes(room);
  if (tables > most_bytes) return {};
  const auto left = static_cast<double>((most_bytes - tables) / sizeof(float));
  const int threads = pass.stencil < pass.count ? kBlurThreads : kPlainThreads;
  const std::int32_t pitch = texel_pitch(static_cast<std::int32_t>(texels.columns), channels);
  const double floats = texels.rows * pitch;
  // A block whose sample the interpolation is not applied to reads the source directly.
  shape.always_fits = way != Way::warp && pass.is_staged && step.switch_count == 0 &&
                      pass.turns_rigidly && floats <= left && texels.columns <= threads;
  room.floats = static_cast<std::int32_t>(std::min(floats, left));
  room.pitch = shape.always_fits ? pitch : 0;
  return room;
}

/// Shared memory for the warps that store columns of a tile.
std::size_t stores_of_blur(std::int32_t width, std::int32_t height, std::int32_t channels) {
  const std::int32_t warps = std::min(kBlurThreads, width * height / kRows) / 32;
  return static_cast<std::size_t>(warps) * store_bytes(channels);
}

/// Sets the layout of shared memory between the sample's parameters and the planes.
void set_room(const PassProgram& pass, std::int32_t channels, std::uint32_t drawn_bytes,
              std::size_t most_bytes, std::size_t plane_bytes, LaunchShape& shape) {
  const std::int32_t radius = pass.stencil < pass.count ? pass.steps[pass.stencil].radius : 0;
  const std::int32_t rows = shape.grid.height + 2 * radius;
  const std::int32_t columns = shape.grid.width + 2 * radius;
  const std::size_t stores = plane_bytes > 0
                                 ? stores_of_blur(shape.grid.width, shape.grid.height, channels)
                                 : kPlainThreads / 32 * patches_bytes(channels);
  std::size_t bytes = 0;
  if (pass.interpolation < 0) {
    bytes = pass.mask >= 0 ? mask_bytes(rows, columns) : 0;
  } else {
    const std::size_t taken = drawn_bytes + 16 + plane_bytes + (plane_bytes > 0 ? 0 : stores);
    shape.room =
        stage_room(pass, channels, {static_cast<double>(rows), static_cast<double>(columns)},
                   most_bytes - std::min(most_bytes, taken), shape);
    bytes = stage_bytes(shape.room);
  }
  const std::size_t behind = round_up(drawn_bytes + bytes, 16);
  if (plane_bytes > 0) {  // the memory of source pixels is reused when results are stored
    shape.stores_at = drawn_bytes;
    shape.planes_at = static_cast<std::uint32_t>(std::max(behind, drawn_bytes + stores));
  } else {
    shape.stores_at = static_cast<std::uint32_t>(behind);
    shape.planes_at = static_cast<std::uint32_t>(behind + stores);
  }
  shape.shared_bytes = shape.planes_at + static_cast<std::uint32_t>(plane_bytes);
}

Grid grid_for(const PassProgram& pass, std::int32_t width, std::int32_t height) {
  const std::int32_t across = (pass.out_width + width - 1) / width;
  const std::int32_t down = (pass.out_height + height - 1) / height;
  return {across, across * down, width, height};
}

constexpr std::int32_t kWidth = 64;  ///< width of most tiles, in pixels

/// Chooses the launch of a pass without a stencil.
LaunchShape plain_shape(const PassProgram& pass, std::int32_t channels, std::uint32_t drawn_bytes,
                        const DeviceLimits& limits) {
  constexpr int kBlocks = 4;
  constexpr std::int32_t kMasked = 3072;  // pixels whose mask all threads compute in two iterations
  const auto shape_for = [&](std::int32_t width, std::int32_t height) {
    LaunchShape shape = {};
    shape.grid = grid_for(pass, width, height);
    set_room(pass, channels, drawn_bytes, most_shared_bytes(limits, kBlocks), 0, shape);
    return shape;
  };
  if (pass.mask >= 0 && pass.has_plain_moves && pass.interpolation < 0) {
    const std::int32_t last = pass.out_width % (2 * kWidth);
    const std::int32_t width = last == 0 || last > kWidth ? 2 * kWidth : kWidth;
    return shape_for(width, kMasked / width);
  }
  if (pass.interpolation >= 0) {
    const LaunchShape large = shape_for(kWidth, kWidth);
    if (large.always_fits) return large;
  }
  return shape_for(kWidth, kWidth / 2);
}

}  // namespace

Way choose_way(const PassProgram& pass) {
  if (pass.interpolation < 0) return Way::direct;
  const ProgramStep& step = pass.steps[pass.interpolation];
  if (step.kind == StepKind::warp) return Way::warp;
  return filters_levels(step.interpolation, step.antialias) ? Way::filter : Way::linear;
}

DeviceLimits device_limits() {
  int device = 0;
  int of_block = 0;
  int of_processor = 0;
  cuda::check_cuda(cudaGetDevice(&device));
  cuda::check_cuda(
      cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  cuda::check_cuda(
      cudaDeviceGetAttribute(&of_processor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  return {static_cast<std::size_t>(of_block), static_cast<std::size_t>(of_processor)};
}

LaunchShape launch_shape(const PassProgram& pass, std::int32_t channels, std::uint32_t drawn_bytes,
                         const DeviceLimits& limits) {
  LaunchShape shape = {};
  if (pass.stencil == pass.count) return plain_shape(pass, channels, drawn_bytes, limits);
  const std::int32_t radius = pass.steps[pass.stencil].radius;
  std::int32_t width = kWidth;
  std::int32_t height = kWidth;
  const auto plane_bytes = [&] {
    return sizeof(float) * static_cast<std::size_t>(channels * (height + 2 * radius)) *
           static_cast<std::size_t>(plane_pitch(width, radius));
  };
  const auto needed_bytes = [&] {
    return plane_bytes() + drawn_bytes + 16 + stores_of_blur(width, height, channels);
  };
  const std::size_t share = most_shared_bytes(limits, kBlurBlocks);
  // Blurs with a large radius need so much shared memory that a block has a multiprocessor for
  // itself.
  const std::size_t most = radius <= 7 ? share : most_shared_bytes(limits, 1);
  while (needed_bytes() > most && height > kRows) (width > 32 ? width : height) /= 2;
  if (needed_bytes() > most)
    throw Refused(
        "gaussian_blur: with a kernel_size of " + std::to_string(2 * radius + 1) + " and " +
        format_count(static_cast<std::uint64_t>(channels), "channel") + " it needs " +
        std::to_string(needed_bytes()) + " bytes of shared memory per block, but this GPU has " +
        std::to_string(most) +
        "; blur on the loader's threads (--transforms-device cpu), or with a smaller size");
  shape.grid = grid_for(pass, width, height);
  set_room(pass, channels, drawn_bytes, most, plane_bytes(), shape);
  return shape;
}

}  // namespace slipstream::augment
