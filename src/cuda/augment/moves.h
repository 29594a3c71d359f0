#pragma once

#include "cuda/augment/program.h"
#include "cuda/augment/statistics.h"
#include "slipstream/core/region.h"
#include "slipstream/transforms/drawn.h"
#include "transforms/interpolation.h"
#include "transforms/mask_math.h"

// Finds the source of a pixel of a pass, going back from its coordinates. The common cases are
// inlined, because a call in a kernel costs more than the work itself; the rest is called.
#if defined(__CUDACC__)
#define SLIPSTREAM_INLINED __host__ __device__ __forceinline__
#define SLIPSTREAM_CALLED inline __host__ __device__ __noinline__
#else
#define SLIPSTREAM_INLINED inline
#define SLIPSTREAM_CALLED inline
#endif
#if defined(__CUDA_ARCH__)
#ifdef SLIPSTREAM_SPECIALIZED
#define SLIPSTREAM_ROLLED _Pragma("unroll")
#else
#define SLIPSTREAM_ROLLED _Pragma("unroll 1")
#endif
#else
#define SLIPSTREAM_ROLLED
#endif

namespace slipstream::augment {

#ifdef SLIPSTREAM_SPECIALIZED
// Kernels for one pass know its steps at compile time, and have no loops over them.
template <std::int32_t kStep = 0, typename WithStep>
SLIPSTREAM_INLINED void each_step(const PassProgram& pass, std::int32_t first, std::int32_t last,
                                  const WithStep& with_step) {
  if constexpr (kStep < kPass.count) {
    if (first <= kStep && kStep < last) with_step(kPass.steps[kStep]);
    each_step<kStep + 1>(pass, first, last, with_step);
  }
}

template <std::int32_t kPlace = 0, typename WithStep>
SLIPSTREAM_INLINED void each_plain_step(const PassProgram& pass, const WithStep& with_step) {
  if constexpr (kPlace < kPass.plain_count) {
    with_step(kPass.steps[kPass.plain_steps[kPlace]]);
    each_plain_step<kPlace + 1>(pass, with_step);
  }
}
#else
/// Calls with_step(step) for the steps `first` to `last` - 1.
template <typename WithStep>
SLIPSTREAM_INLINED void each_step(const PassProgram& pass, std::int32_t first, std::int32_t last,
                                  const WithStep& with_step) {
  SLIPSTREAM_ROLLED
  for (std::int32_t i = first; i < last; ++i) with_step(pass.steps[i]);
}

/// Like each_step(), for plain_steps.
template <typename WithStep>
SLIPSTREAM_INLINED void each_plain_step(const PassProgram& pass, const WithStep& with_step) {
  SLIPSTREAM_ROLLED
  for (std::int32_t i = 0; i < pass.plain_count; ++i) with_step(pass.steps[pass.plain_steps[i]]);
}
#endif

/// One image: interleaved channels, rows without gaps.
struct Source {
  const std::byte* pixels;
  Range range;  ///< levels: uint8; unit: float32
  std::int32_t width;

  template <int C>
  SLIPSTREAM_INLINED Pixel<C> at(std::int32_t y, std::int32_t x) const {
    const std::int64_t first = (static_cast<std::int64_t>(y) * width + x) * C;
    Pixel<C> pixel;
    if (range == Range::levels) {
      const auto* from = reinterpret_cast<const std::uint8_t*>(pixels) + first;
      for (int c = 0; c < C; ++c) pixel.value[c] = static_cast<float>(from[c]);
    } else {
      const auto* from = reinterpret_cast<const float*>(pixels) + first;
      for (int c = 0; c < C; ++c) pixel.value[c] = from[c];
    }
    return pixel;
  }
};

template <int C>
SLIPSTREAM_INLINED Pixel<C> fill_pixel(float value) {
  Pixel<C> pixel;
  for (int c = 0; c < C; ++c) pixel.value[c] = value;
  return pixel;
}

template <int C>
SLIPSTREAM_INLINED Pixel<C> fill_pixel(const ProgramStep& step) {
  Pixel<C> pixel;
  for (int c = 0; c < C; ++c) pixel.value[c] = step.fill[c];
  return pixel;
}

template <typename Drawn>
SLIPSTREAM_INLINED const Drawn& drawn_at(const ProgramStep& step, const std::byte* drawn) {
  return *reinterpret_cast<const Drawn*>(drawn + step.drawn);
}

/// Returns true if the step is applied to the sample with these parameters.
SLIPSTREAM_INLINED bool applies([[maybe_unused]] const ProgramStep& step,
                                [[maybe_unused]] const std::byte* drawn) {
// Kernels without any switch have no code for them. Functions that are called, instead of inlined,
// do not know their steps at compile time, so a count of 0 would not suffice.
#ifndef SLIPSTREAM_UNSWITCHED
  SLIPSTREAM_ROLLED
  for (std::int32_t i = 0; i < step.switch_count; ++i) {
    const Switch& by = step.switches[i];
    const std::int32_t value = *reinterpret_cast<const std::int32_t*>(drawn + by.at);
    if (value < by.least || value > by.most) return false;
  }
#endif
  return true;
}

/// Where going back from a pixel ended: at the source, or at a step that fills.
struct Origin {
  std::int32_t y;
  std::int32_t x;
  std::int32_t next;  ///< the first step that then applies to the value
  bool is_filled;     ///< true if step `next` - 1 fills the pixel
};

SLIPSTREAM_INLINED bool is_within(std::int32_t at, std::int32_t size) {
  return static_cast<std::uint32_t>(at) < static_cast<std::uint32_t>(size);
}

SLIPSTREAM_INLINED bool is_drawn_masked(const ProgramStep& step, const RandomWords& key,
                                        std::int32_t y, std::int32_t x) {
  if (!is_within(y, step.in_height) || !is_within(x, step.in_width)) return false;
  const auto block = static_cast<std::uint32_t>(y * blocks_of_row(step.in_width) + x / kMaskPixels);
  return (mask_bits(mask_words(key, block), step.threshold) >> (x % kMaskPixels) & 1U) != 0;
}

SLIPSTREAM_CALLED bool is_masked(const ProgramStep& step, const std::byte* drawn, std::int32_t y,
                                 std::int32_t x) {
  const RandomWords& key = drawn_at<DrawnMask>(step, drawn).key;
  if (is_drawn_masked(step, key, y, x)) return true;
  return step.dilates &&
         (is_drawn_masked(step, key, y - 1, x) || is_drawn_masked(step, key, y + 1, x) ||
          is_drawn_masked(step, key, y, x - 1) || is_drawn_masked(step, key, y, x + 1));
}

/// The part of its input image that a resizing step reads.
struct ResizedRegion {
  std::int32_t top;
  std::int32_t left;
  std::int32_t height;
  std::int32_t width;
};

SLIPSTREAM_INLINED ResizedRegion resized_region(const ProgramStep& step, const std::byte* drawn) {
  if (step.kind == StepKind::resize) return {0, 0, step.in_height, step.in_width};
  const Region& region = drawn_at<DrawnCrop>(step, drawn).region;
  const auto height = static_cast<std::int32_t>(region.height);
  const auto width = static_cast<std::int32_t>(region.width);
  // With parameters that are all 0, the region is one pixel, so that nothing is divided by 0.
  return {static_cast<std::int32_t>(region.top), static_cast<std::int32_t>(region.left),
          height > 0 ? height : 1, width > 0 ? width : 1};
}

/// Mirroring once does not reach every index if all parameters are 0, as in a warm-up.
SLIPSTREAM_INLINED std::int32_t inside(std::int32_t i, std::int32_t size) {
  return i < 0 ? 0 : (i < size ? i : size - 1);
}

/// Returns where the pixel at (y, x) after step `last` - 1 was before step `first`. None of these
/// steps interpolates.
SLIPSTREAM_CALLED Origin way_back(const PassProgram& pass, const std::byte* drawn,
                                  std::int32_t first, std::int32_t last, std::int32_t y,
                                  std::int32_t x) {
  SLIPSTREAM_ROLLED
  for (std::int32_t i = last - 1; i >= first; --i) {
    const ProgramStep& step = pass.steps[i];
    if (!applies(step, drawn)) continue;
    bool may_leave = false;
    bool is_filled = false;
    switch (step.kind) {
      case StepKind::crop: {
        const Region& region = drawn_at<DrawnCrop>(step, drawn).region;
        y += static_cast<std::int32_t>(region.top);
        x += static_cast<std::int32_t>(region.left);
        may_leave = step.padding_mode == PaddingMode::constant;
        if (!may_leave) {
          y = inside(padded_index(step.padding_mode, y, step.in_height), step.in_height);
          x = inside(padded_index(step.padding_mode, x, step.in_width), step.in_width);
        }
        break;
      }
      case StepKind::flip_across:
        if (drawn_at<DrawnFlip>(step, drawn).flips) x = step.in_width - 1 - x;
        break;
      case StepKind::flip_down:
        if (drawn_at<DrawnFlip>(step, drawn).flips) y = step.in_height - 1 - y;
        break;
      case StepKind::warp: {
        const Coordinate at = source_coordinate(drawn_at<DrawnWarp>(step, drawn), x, y);
        y = nearest_pixel(at.y);
        x = nearest_pixel(at.x);
        may_leave = true;
        break;
      }
      case StepKind::resize:
      case StepKind::resize_crop: {
        const ResizedRegion region = resized_region(step, drawn);
        y = region.top + nearest_input(step.interpolation, y, region.height, step.out_height);
        x = region.left + nearest_input(step.interpolation, x, region.width, step.out_width);
        break;
      }
      case StepKind::erase:
        is_filled = is_erased(drawn_at<DrawnErasing>(step, drawn), y, x);
        break;
      case StepKind::mask:
        is_filled = is_masked(step, drawn, y, x);
        break;
      default:
        break;
    }
    if (may_leave) is_filled = !(is_within(y, step.in_height) && is_within(x, step.in_width));
    if (is_filled) return {y, x, i + 1, true};
  }
  return {y, x, first, false};
}

/// Composition of crops and flips: (y, x) comes from (top + down y, left + right x).
struct PlainMove {
  std::int32_t top;
  std::int32_t left;
  std::int32_t down;
  std::int32_t right;
};

/// Composes the steps `first` to `last` - 1.
SLIPSTREAM_INLINED PlainMove plain_move(const PassProgram& pass, const std::byte* drawn,
                                        std::int32_t first, std::int32_t last) {
  PlainMove move = {0, 0, 1, 1};
  SLIPSTREAM_ROLLED
  for (std::int32_t i = last - 1; i >= first; --i) {
    const ProgramStep& step = pass.steps[i];
    if (!applies(step, drawn)) continue;
    if (step.kind == StepKind::crop) {
      const Region& region = drawn_at<DrawnCrop>(step, drawn).region;
      move.top += static_cast<std::int32_t>(region.top);
      move.left += static_cast<std::int32_t>(region.left);
    } else if (step.kind == StepKind::flip_across) {
      if (!drawn_at<DrawnFlip>(step, drawn).flips) continue;
      move.left = step.in_width - 1 - move.left;
      move.right = -move.right;
    } else if (step.kind == StepKind::flip_down) {
      if (!drawn_at<DrawnFlip>(step, drawn).flips) continue;
      move.top = step.in_height - 1 - move.top;
      move.down = -move.down;
    }
  }
  return move;
}

/// Values that all pixels of one image share.
struct Prepared {
  PlainMove before;  ///< moves before plain_end(), if has_plain_moves
  // The following three are for a resizing step.
  ResizedRegion region;
  float scale_y;
  float scale_x;
  /// Statistics of this image for the first step that needs them. Those for the next step are
  /// `statistics_apart` bytes after them.
  const std::byte* statistics;
  std::int64_t statistics_apart;
  float mean[kMostStatistics];  ///< mean gray before each contrast
};

/// Returns the first step that interpolates or reads neighbors.
SLIPSTREAM_INLINED std::int32_t plain_end(const PassProgram& pass) {
  return pass.interpolation >= 0 ? pass.interpolation : pass.stencil;
}

SLIPSTREAM_INLINED Prepared prepared_for(const PassProgram& pass, const std::byte* drawn) {
  const std::int32_t last = plain_end(pass);
  Prepared result{};
  if (pass.has_plain_moves) result.before = plain_move(pass, drawn, 0, last);
  if (pass.interpolation < 0 || pass.steps[last].kind == StepKind::warp) return result;
  const ProgramStep& step = pass.steps[last];
  result.region = resized_region(step, drawn);
  result.scale_y = static_cast<float>(result.region.height) / static_cast<float>(step.out_height);
  result.scale_x = static_cast<float>(result.region.width) / static_cast<float>(step.out_width);
  return result;
}

/// Sets the statistics of an image, and the means for contrasts.
SLIPSTREAM_INLINED void set_statistics(const PassProgram& pass, const std::byte* statistics,
                                       std::int64_t apart, Prepared& prepared) {
  if (pass.statistics == 0) return;
  prepared.statistics = statistics;
  prepared.statistics_apart = apart;
  each_step(pass, 0, pass.count, [&](const ProgramStep& step) {
    if (step.kind != StepKind::jitter || step.statistic < 0) return;
    const Statistics& of = statistics_at(statistics + step.statistic * apart);
    prepared.mean[step.statistic] = mean_level(of.sum, pixel_count(step), step.range);
  });
}

/// Bits of the pixels in a part of an image that a RandomMask masks, after dilation: bit x % 8 of a
/// byte. `bits` is null if they were not computed.
struct MaskBits {
  const std::uint8_t* bits = nullptr;
  std::int32_t top = 0;
  std::int32_t left = 0;  ///< a multiple of kMaskPixels
  std::int32_t pitch = 0;

  SLIPSTREAM_INLINED bool at(std::int32_t y, std::int32_t x) const {
    const std::int32_t from_left = x - left;
    const unsigned byte = bits[(y - top) * pitch + from_left / kMaskPixels];
    return (byte >> (from_left % kMaskPixels) & 1U) != 0;
  }
};

/// One image while a pass processes it.
struct Image {
  const PassProgram& pass;
  const std::byte* drawn;
  const Prepared& prepared;
  Source source;
  MaskBits mask;  ///< bits of step pass.mask
};

/// Returns true if an erasing or masking step fills pixel (y, x).
SLIPSTREAM_INLINED bool is_blotted(const Image& image, const ProgramStep& step, std::int32_t y,
                                   std::int32_t x) {
  if (!applies(step, image.drawn)) return false;
  if (step.kind == StepKind::erase) {
    return is_erased(drawn_at<DrawnErasing>(step, image.drawn), y, x);
  }
  const bool is_counted_out =
      image.mask.bits != nullptr && &step == image.pass.steps + image.pass.mask;
  return is_counted_out ? image.mask.at(y, x) : is_masked(step, image.drawn, y, x);
}

}  // namespace slipstream::augment
