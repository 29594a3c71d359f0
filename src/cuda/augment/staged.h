#pragma once

#include "cuda/augment/stage.h"

// Device code: interpolates between staged pixels.
namespace slipstream::augment {

template <int C>
__device__ __forceinline__ Pixel<C> texel_at(const float* from) {
  Pixel<C> pixel;
  for (int c = 0; c < C; ++c) pixel.value[c] = from[c];
  return pixel;
}

/// Interpolates between the four pixels at `from`, with the weights `right` and `down`.
template <int C>
__device__ __forceinline__ Pixel<C> between_four(const float* from, std::int32_t pitch, float right,
                                                 float down) {
  const float* below = from + pitch;
  const Pixel<C> upper = between<C>(texel_at<C>(from), texel_at<C>(from + C), right);
  const Pixel<C> lower = between<C>(texel_at<C>(below), texel_at<C>(below + C), right);
  return between<C>(upper, lower, down);
}

template <int C>
__device__ __forceinline__ Pixel<C> filtered_levels(const float* from, std::int32_t pitch,
                                                    std::int32_t rows, const std::int32_t* down,
                                                    std::int32_t columns,
                                                    const std::int32_t* across) {
  constexpr std::int32_t kHalf = 1 << (ResizeFilter::kFractionBits - 1);
  std::int32_t sums[C];
  for (int c = 0; c < C; ++c) sums[c] = kHalf;
  for (std::int32_t j = 0; j < rows; ++j) {
    std::int32_t row[C];
    for (int c = 0; c < C; ++c) row[c] = kHalf;
    for (std::int32_t i = 0; i < columns; ++i) {
      const float* at = from + j * pitch + i * C;
      for (int c = 0; c < C; ++c) row[c] += across[i] * __float_as_int(at[c]);
    }
    for (int c = 0; c < C; ++c) sums[c] += down[j] * fixed_level(row[c]);
  }
  Pixel<C> result;
  for (int c = 0; c < C; ++c) result.value[c] = static_cast<float>(fixed_level(sums[c]));
  return result;
}

/// Adds a term to a sum. The first term initializes it.
template <int C>
__device__ __forceinline__ void add_term(bool is_first, float weight, const Pixel<C>& pixel,
                                         Pixel<C>& sum) {
  for (int c = 0; c < C; ++c) {
    sum.value[c] = is_first ? weight * pixel.value[c] : fused(weight, pixel.value[c], sum.value[c]);
  }
}

template <int C>
__device__ __forceinline__ Pixel<C> summed(const float* from, std::int32_t apart,
                                           std::int32_t count, const std::int32_t* weights) {
  Pixel<C> sum;
  for (std::int32_t i = 0; i < count; ++i) {
    add_term<C>(i == 0, __int_as_float(weights[i]), texel_at<C>(from + i * apart), sum);
  }
  return sum;
}

/// Computes a tile's pixels before the stencil from staged ones. Members that each pixel needs are
/// copies, so that they stay in registers.
template <int C, Way kWay>
class Staged {
 public:
  __device__ __forceinline__ Staged(const Image& image, const Stage& stage, const StageSpace& room,
                                    const StageMemory& memory)
      : image_(image),
        after_(stage.after),
        row_({stage.before.top - stage.made.top, stage.before.down}),
        column_({stage.before.left - stage.made.left, stage.before.right}),
        has_turn_(image.pass.turn >= 0),
        changes_(image.pass.changes_after),
        memory_(memory),
        pitch_(row_pitch(room, stage.pitch)),
        taps_(room.taps) {
    const PassProgram& pass = image.pass;
    if (!pass.moves_after) {
      after_ = {0, 0, 1, 1};
      row_ = {-stage.made.top, 1};
      column_ = {-stage.made.left, 1};
    }
    const ProgramStep& step = pass.steps[pass.interpolation];
    is_levels_ = step.range == Range::levels;
    filters_down_ = is_filtered(step, image.prepared.region.height, step.out_height);
    filters_across_ = is_filtered(step, image.prepared.region.width, step.out_width);
    if constexpr (kWay == Way::warp) {
      warp_ = drawn_at<DrawnWarp>(step, image.drawn);
      in_ = {step.in_height, step.in_width, step.fill[0]};
      row_.first += stage.made.top;
      column_.first += stage.made.left;
      memory_.texels -= stage.texels.top * pitch_ + stage.texels.left * C;
    } else {
      memory_.rows += row_.first;
      memory_.columns += column_.first;
      memory_.row_weights += row_.first * taps_;
      memory_.column_weights += column_.first * taps_;
    }
    if (!has_turn_) return;
    const ProgramStep& turn = pass.steps[pass.turn];
    turn_ = drawn_at<DrawnWarp>(turn, image.drawn);
    turned_ = {turn.in_height, turn.in_width, turn.fill[0]};
  }

  __device__ __forceinline__ Pixel<C> at(std::int32_t y, std::int32_t x) const {
    y = after_.top + after_.down * y;
    x = after_.left + after_.right * x;
    Pixel<C> pixel = fill_pixel<C>(turned_.fill);
    bool is_filled = false;
    if (has_turn_) {
      const Coordinate from = source_coordinate(turn_, x, y);
      y = nearest_pixel(from.y);
      x = nearest_pixel(from.x);
      is_filled = !(is_within(y, turned_.height) && is_within(x, turned_.width));
    }
    if (!is_filled) {
      constexpr bool kIsWarp = kWay == Way::warp;
      pixel = interpolated((kIsWarp ? row_.first : 0) + row_.step * y,
                           (kIsWarp ? column_.first : 0) + column_.step * x);
    }
    if (!changes_) return pixel;
    const PassProgram& pass = image_.pass;
    return gone_through<C>(image_, (is_filled ? pass.turn : pass.interpolation) + 1, pass.stencil,
                           pixel);
  }

 private:
  /// An axis of PlainMove.
  struct Move {
    std::int32_t first;
    std::int32_t step;
  };
  struct Bounds {
    std::int32_t height;
    std::int32_t width;
    float fill;
  };

  __device__ __forceinline__ Pixel<C> interpolated(std::int32_t y, std::int32_t x) const {
    if constexpr (kWay == Way::filter) return filtered(y, x);
    Pixel<C> pixel = kWay == Way::warp ? warped(y, x) : resized(y, x);
    if (!is_levels_) return pixel;
    for (float& value : pixel.value) value = to_level(value);
    return pixel;
  }

  __device__ __forceinline__ Pixel<C> resized(std::int32_t y, std::int32_t x) const {
    const AxisEntry row = memory_.rows[y];
    const AxisEntry column = memory_.columns[x];
    return between_four<C>(find_texels(row, column), pitch_, column.weight, row.weight);
  }

  __device__ __forceinline__ const float* find_texels(const AxisEntry& row,
                                                      const AxisEntry& column) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(memory_.texels) +
                                          row.offset + column.offset);
  }

  __device__ __forceinline__ Pixel<C> warped(std::int32_t y, std::int32_t x) const {
    const Coordinate at = source_coordinate(warp_, x, y);
    const std::int32_t left = whole_below(at.x);
    const std::int32_t top = whole_below(at.y);
    if (left < -1 || left >= in_.width || top < -1 || top >= in_.height)
      return fill_pixel<C>(in_.fill);
    return between_four<C>(memory_.texels + top * pitch_ + left * C, pitch_,
                           at.x - static_cast<float>(left), at.y - static_cast<float>(top));
  }

  __device__ __forceinline__ Pixel<C> filtered(std::int32_t y, std::int32_t x) const {
    const AxisEntry row = memory_.rows[y];
    const AxisEntry column = memory_.columns[x];
    const float* from = find_texels(row, column);
    const std::int32_t* down = memory_.row_weights + y * taps_;
    const std::int32_t* across = memory_.column_weights + x * taps_;
    if (is_levels_) {
      return filtered_levels<C>(from, pitch_, row.count, down, column.count, across);
    }
    const auto row_value = [&](const float* at) {
      if (filters_across_) return summed<C>(at, C, column.count, across);
      return between<C>(texel_at<C>(at), texel_at<C>(at + C), column.weight);
    };
    if (!filters_down_) return between<C>(row_value(from), row_value(from + pitch_), row.weight);
    Pixel<C> sum;
    for (std::int32_t j = 0; j < row.count; ++j) {
      add_term<C>(j == 0, __int_as_float(down[j]), row_value(from + j * pitch_), sum);
    }
    return sum;
  }

  const Image& image_;
  PlainMove after_;
  Move row_;  ///< maps a row to an index of memory_.rows; for a warp, to a row before it
  Move column_;
  bool has_turn_;
  bool changes_;
  bool is_levels_;
  bool filters_down_;
  bool filters_across_;
  StageMemory memory_;
  std::int32_t pitch_;
  std::int32_t taps_;
  DrawnWarp turn_;
  Bounds turned_;
  DrawnWarp warp_;
  Bounds in_;
};

}  // namespace slipstream::augment
