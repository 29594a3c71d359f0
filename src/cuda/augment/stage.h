#pragma once

#include "cuda/augment/load.h"
#include "cuda/augment/tiles.h"

// Device code: computes the pixels before the interpolation that a tile needs, each once, in shared
// memory.
namespace slipstream::augment {

/// The layout of a tile, which all threads of a block share. A pixel is traced back through
/// `after`, the warp and `before` to one of the pixels `made` by the interpolation, and so to
/// `texels` before it.
struct Stage {
  PlainMove after;
  PlainMove before;
  Box made;
  Box texels;
  std::int32_t pitch;  ///< distance between rows of texels, in floats
  bool fits;
};

__device__ __forceinline__ Box moved(const Box& box, const PlainMove& by) {
  const std::int32_t top = by.top + by.down * box.top;
  const std::int32_t bottom = by.top + by.down * (box.bottom - 1);
  const std::int32_t left = by.left + by.right * box.left;
  const std::int32_t right = by.left + by.right * (box.right - 1);
  return {min(top, bottom), min(left, right), max(top, bottom) + 1, max(left, right) + 1};
}

/// Returns a box around the sources of the pixels of `box` under a warp, with a margin of one pixel
/// on every side. Empty if float32 is too coarse to compute it.
__device__ __forceinline__ Box around(const Box& box, const DrawnWarp& warp, float shift) {
  constexpr float kFar = 1048576.0F;
  constexpr float kSteep = 64.0F;
  Coordinate least{kFar, kFar};
  Coordinate most{-kFar, -kFar};
  SLIPSTREAM_ROLLED
  for (int corner = 0; corner < 4; ++corner) {
    const Coordinate at = source_coordinate(warp, corner % 2 == 0 ? box.left : box.right - 1,
                                            corner < 2 ? box.top : box.bottom - 1);
    least = {fminf(least.x, at.x), fminf(least.y, at.y)};
    most = {fmaxf(most.x, at.x), fmaxf(most.y, at.y)};
  }
  const float steepest =
      fmaxf(fmaxf(fabsf(warp.m[0]), fabsf(warp.m[1])), fmaxf(fabsf(warp.m[3]), fabsf(warp.m[4])));
  const bool is_clear =
      fminf(least.x, least.y) > -kFar && fmaxf(most.x, most.y) < kFar && steepest < kSteep;
  if (!is_clear) return {0, 0, 0, 0};
  return {whole_below(least.y + shift) - 1, whole_below(least.x + shift) - 1,
          whole_below(most.y + shift) + 2, whole_below(most.x + shift) + 2};
}

/// Returns the range of the `in` pixels on an axis that outputs `from` to `to` - 1 need.
__device__ __forceinline__ int2 needed(const ProgramStep& step, Way way, std::int32_t from,
                                       std::int32_t to, std::int32_t in, std::int32_t out,
                                       float scale) {
  if (way == Way::filter) {
    const ResizeFilter filter(step_filter(step), in, out);
    return {static_cast<std::int32_t>(filter.begin(from)),
            static_cast<std::int32_t>(filter.end(to - 1))};
  }
  return {resized_axis(from, in, scale).first, resized_axis(to - 1, in, scale).first + 2};
}

/// Returns true if an axis is filtered.
__device__ __forceinline__ bool is_filtered(const ProgramStep& step, std::int32_t in,
                                            std::int32_t out) {
  if (step.range == Range::levels) return filters_levels(step.interpolation, step.antialias);
  return is_filtered_axis(step_filter(step), step.antialias, in, out);
}

/// Distance between rows of texels. It is a compile-time constant in kernels whose capacity always
/// suffices.
__device__ __forceinline__ std::int32_t row_pitch(const StageSpace& room, std::int32_t of_tile) {
  return room.pitch > 0 ? room.pitch : of_tile;
}

/// Computes the layout. Called by one thread. `wanted` are the pixels before the stencil.
template <Way kWay>
__device__ __forceinline__ void lay_out(const PassProgram& pass, const std::byte* drawn,
                                        const Prepared& prepared, const Box& wanted,
                                        const StageSpace& room, int channels, Stage& stage) {
  const ProgramStep& step = pass.steps[pass.interpolation];
  stage.fits = pass.is_staged && applies(step, drawn);
  if (!stage.fits) return;
  const std::int32_t behind_turn = pass.turn >= 0 ? pass.turn + 1 : pass.interpolation + 1;
  stage.after = plain_move(pass, drawn, behind_turn, pass.stencil);
  stage.before = {0, 0, 1, 1};
  Box box = moved(wanted, stage.after);
  if (pass.turn >= 0) {
    const ProgramStep& turn = pass.steps[pass.turn];
    box = around(box, drawn_at<DrawnWarp>(turn, drawn), 0.5F);
    stage.fits = box.rows() > 0;
    box = clipped(box, turn.in_height, turn.in_width);
    stage.before = plain_move(pass, drawn, pass.interpolation + 1, pass.turn);
    if (stage.fits && (box.rows() <= 0 || box.columns() <= 0)) {  // all of it is filled
      stage.made = stage.texels = {0, 0, 0, 0};
      stage.pitch = 0;
      return;
    }
    box = moved(box, stage.before);
  }
  stage.made = box;
  if constexpr (kWay == Way::warp) {
    const Box texels = around(box, drawn_at<DrawnWarp>(step, drawn), 0.0F);
    stage.fits &= texels.rows() > 0;
    stage.texels = {max(texels.top, -1), max(texels.left, -1),
                    min(texels.bottom + 1, step.in_height + 1),
                    min(texels.right + 1, step.in_width + 1)};
  } else {
    const ResizedRegion& region = prepared.region;
    const auto way = [&](std::int32_t in, std::int32_t out) {
      return kWay == Way::filter && is_filtered(step, in, out) ? Way::filter : Way::linear;
    };
    const int2 down = needed(step, way(region.height, step.out_height), box.top, box.bottom,
                             region.height, step.out_height, prepared.scale_y);
    const int2 across = needed(step, way(region.width, step.out_width), box.left, box.right,
                               region.width, step.out_width, prepared.scale_x);
    stage.texels = {down.x, across.x, down.y, across.y};
    stage.fits &= max(box.rows(), box.columns()) <= room.entries;
  }
  stage.pitch = row_pitch(room, texel_pitch(max(stage.texels.columns(), 0), channels));
  stage.fits &= stage.texels.columns() <= static_cast<std::int32_t>(blockDim.x);
  stage.fits &= max(stage.texels.rows(), 0) * stage.pitch <= room.floats;
}

/// A block's shared memory for staged pixels.
struct StageMemory {
  AxisEntry* rows;
  AxisEntry* columns;
  std::int32_t* row_weights;
  std::int32_t* column_weights;
  float* texels;
};

__device__ __forceinline__ StageMemory stage_memory(const StageSpace& room, std::byte* shared) {
  StageMemory memory;
  memory.rows = reinterpret_cast<AxisEntry*>(shared);
  memory.columns = memory.rows + room.entries;
  memory.row_weights = reinterpret_cast<std::int32_t*>(memory.columns + room.entries);
  memory.column_weights = memory.row_weights + room.entries * room.taps;
  memory.texels = reinterpret_cast<float*>(shared + table_bytes(room));
  return memory;
}

/// One of the two axes for which a resize computes entries.
struct Axis {
  std::int32_t first;  ///< output
  std::int32_t in;
  std::int32_t out;
  float scale;
  std::int32_t first_texel;
  std::int32_t apart;  ///< texels, in bytes
  AxisEntry* entries;
  std::int32_t* weights;  ///< `taps` per entry
};

template <Way kWay>
__device__ __forceinline__ void fill_entry(const ProgramStep& step, const Axis& axis,
                                           std::int32_t taps, std::int32_t i) {
  const std::int32_t output = axis.first + i;
  AxisEntry entry;
  if (kWay != Way::filter || !is_filtered(step, axis.in, axis.out)) {
    const Neighbors of = resized_axis(output, axis.in, axis.scale);
    entry.offset = (of.first - axis.first_texel) * axis.apart;
    entry.weight = of.weight;
  } else {
    const ResizeFilter filter(step_filter(step), axis.in, axis.out);
    const auto begin = static_cast<std::int32_t>(filter.begin(output));
    entry.offset = (begin - axis.first_texel) * axis.apart;
    entry.count = static_cast<std::int32_t>(filter.end(output)) - begin;
    const double total = filter.sum(output);
    for (std::int32_t tap = 0; tap < entry.count && tap < taps; ++tap) {
      const std::int32_t weight = filter.weight(output, begin + tap, total);
      axis.weights[i * taps + tap] =
          step.range == Range::levels ? weight : __float_as_int(filtered_weight(weight));
    }
  }
  axis.entries[i] = entry;
}

/// Computes the entries of all rows and columns, each in one thread.
template <Way kWay>
__device__ __forceinline__ void fill_axes(const Image& image, const Stage& stage, std::int32_t taps,
                                          std::int32_t floats, const StageMemory& memory) {
  const ProgramStep& step = image.pass.steps[image.pass.interpolation];
  const Prepared& prepared = image.prepared;
  const ResizedRegion& region = prepared.region;
  const std::int32_t rows = stage.made.rows();
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < rows + stage.made.columns();
       i += static_cast<std::int32_t>(blockDim.x)) {
    const bool is_row = i < rows;
    const Axis axis = {is_row ? stage.made.top : stage.made.left,
                       is_row ? region.height : region.width,
                       is_row ? step.out_height : step.out_width,
                       is_row ? prepared.scale_y : prepared.scale_x,
                       is_row ? stage.texels.top : stage.texels.left,
                       4 * (is_row ? stage.pitch : floats),
                       is_row ? memory.rows : memory.columns,
                       is_row ? memory.row_weights : memory.column_weights};
    fill_entry<kWay>(step, axis, taps, is_row ? i : i - rows);
  }
}

/// Stores adjacent pixels of a row, with 16-byte stores for runs of kTexels.
template <int C, Way kWay, int N>
__device__ __forceinline__ void store_texels(const Image& image, const Pixel<C> (&run)[N],
                                             float* to) {
  const Range range = image.pass.steps[image.pass.interpolation].range;
  float values[C * N];
#pragma unroll
  for (int i = 0; i < C * N; ++i) {
    const float value = run[i / C].value[i % C];
    const bool is_integral = kWay == Way::filter && range == Range::levels;
    values[i] = is_integral ? __int_as_float(static_cast<std::int32_t>(value)) : value;
  }
#pragma unroll
  for (int i = 0; i < C * N; i += N) {
    if constexpr (N == 4) {
      *reinterpret_cast<float4*>(to + i) = {values[i], values[i + 1], values[i + 2], values[i + 3]};
    } else {
      to[i] = values[i];
    }
  }
}

/// Fills runs of kTexels adjacent pixels, except the last ones of a row. Returns the number of
/// columns filled.
/// REQUIRES: moves_alone() and has_whole_words()
template <int C, Way kWay>
__device__ __forceinline__ std::int32_t fill_runs(const Image& image, const Stage& stage,
                                                  const StageSpace& room, std::int32_t pitch,
                                                  float* texels) {
  const PassProgram& pass = image.pass;
  const ResizedRegion& region = image.prepared.region;
  const std::int32_t runs = min((stage.texels.columns() + kTexels - 1) / kTexels,
                                (region.width - stage.texels.left) / kTexels);
  if (runs <= 0) return 0;
  // If the pitch is a constant, there are threads for the longest possible row, so that no division
  // by a variable is needed.
  const std::int32_t of_row = room.pitch > 0 ? room.pitch / (kTexels * C) : runs;
  const std::int32_t at_once = static_cast<std::int32_t>(blockDim.x) / of_row;
  const std::int32_t first = static_cast<std::int32_t>(threadIdx.x) / of_row;
  const std::int32_t column = (static_cast<std::int32_t>(threadIdx.x) - first * of_row) * kTexels;
  if (column >= runs * kTexels) return runs * kTexels;
  constexpr int kRowsAtOnce = 2;  // more loads in flight hide the latency of memory
  const std::int32_t rows = first < at_once ? stage.texels.rows() : 0;
  for (std::int32_t row = first; row < rows; row += kRowsAtOnce * at_once) {
    Pixel<C> run[kRowsAtOnce][kTexels];
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      const std::int32_t y = stage.texels.top + row + k * at_once;
      load_run<C>(image, region.top + min(y, region.height - 1),
                  region.left + stage.texels.left + column, run[k]);
    }
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (row + k * at_once >= rows) continue;
      each_plain_step(pass,
                      [&](const ProgramStep& step) { advance<C, kTexels>(image, step, run[k]); });
      store_texels<C, kWay>(image, run[k], texels + (row + k * at_once) * pitch + column * C);
    }
  }
  return runs * kTexels;
}

/// Returns true if only crops and flips move pixels before the interpolation, and no step replaces
/// them.
__device__ __forceinline__ bool moves_alone(const PassProgram& pass) {
  return pass.has_plain_moves && !pass.has_plain_blots;
}

/// Computes the pixels of one column in rows `row`, `row` + `apart` and so on. Rows below the last
/// repeat the last.
template <int C, Way kWay, int N>
__device__ __forceinline__ void texels_below(const Image& image, const Stage& stage,
                                             std::int32_t row, std::int32_t column,
                                             std::int32_t apart, Pixel<C> (&run)[N]) {
  const PassProgram& pass = image.pass;
  const ProgramStep& step = pass.steps[pass.interpolation];
  const ResizedRegion& region = image.prepared.region;
  const bool is_plain = moves_alone(pass);
  const PlainMove& move = image.prepared.before;
  std::int32_t x = stage.texels.left + column;
  bool is_outside[N];
  if (kWay != Way::warp) x = region.left + min(x, region.width - 1);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    std::int32_t y = stage.texels.top + min(row + k * apart, stage.texels.rows() - 1);
    if (kWay != Way::warp) y = region.top + min(y, region.height - 1);
    is_outside[k] =
        kWay == Way::warp && !(is_within(y, step.in_height) && is_within(x, step.in_width));
    if (is_outside[k]) {
      run[k] = fill_pixel<C>(step);
    } else if (is_plain) {
      run[k] = image.source.at<C>(move.top + move.down * y, move.left + move.right * x);
    } else {
      run[k] = moved_pixel<C>(image, pass.interpolation, y, x);
    }
  }
  if (!is_plain) return;
  each_plain_step(pass, [&](const ProgramStep& plain) { advance<C, N>(image, plain, run); });
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (is_outside[k]) run[k] = fill_pixel<C>(step);
  }
}

/// Fills the columns starting at `left`, N pixels of a column at a time.
template <int C, Way kWay, int N>
__device__ __forceinline__ void fill_columns(const Image& image, const Stage& stage,
                                             std::int32_t left, std::int32_t pitch, float* texels) {
  const std::int32_t columns = stage.texels.columns() - left;
  if (columns <= 0) return;
  const std::int32_t at_once = static_cast<std::int32_t>(blockDim.x) / columns;
  const std::int32_t first = static_cast<std::int32_t>(threadIdx.x) / columns;
  const std::int32_t column = left + static_cast<std::int32_t>(threadIdx.x) - first * columns;
  for (std::int32_t row = first; first < at_once && row < stage.texels.rows(); row += N * at_once) {
    Pixel<C> run[N];
    texels_below<C, kWay, N>(image, stage, row, column, at_once, run);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (row + k * at_once >= stage.texels.rows()) continue;
      const Pixel<C> pixel[1] = {run[k]};
      store_texels<C, kWay>(image, pixel, texels + (row + k * at_once) * pitch + column * C);
    }
  }
}

/// Fills the staged pixels. Called by all threads; ends with a barrier.
template <int C, Way kWay>
__device__ __forceinline__ void fill_stage(const Image& image, const Stage& stage,
                                           const StageSpace& room, const StageMemory& memory) {
  if constexpr (kWay != Way::warp) fill_axes<kWay>(image, stage, room.taps, C, memory);
  const std::int32_t pitch = row_pitch(room, stage.pitch);
  const PassProgram& pass = image.pass;
  if (kWay != Way::warp && moves_alone(pass) && has_whole_words<C>(image)) {
    const std::int32_t filled = fill_runs<C, kWay>(image, stage, room, pitch, memory.texels);
    fill_columns<C, kWay, 1>(image, stage, filled, pitch, memory.texels);
  } else {
    fill_columns<C, kWay, kTexels>(image, stage, 0, pitch, memory.texels);
  }
  __syncthreads();
}

}  // namespace slipstream::augment
