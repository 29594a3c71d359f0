#pragma once

#include "augment/program.h"
#include "slipstream/blur.h"
#include "slipstream/interpolation.h"
#include "slipstream/region.h"
#include "slipstream/transforms.h"
#include "slipstream/triangle_filter.h"

// One output pixel of a pass, computed back from its coordinate to the pixels of the source: the
// arithmetic of the operations' CPU forms, in their order, so that the bits are the same.
namespace slipstream::augment {

/// One image: channels next to each other, rows without a gap.
struct Source {
  const std::byte* pixels;
  Range range;  ///< levels: u8; unit: f32
  std::int32_t width;

  template <int C>
  SLIPSTREAM_HOST_DEVICE Pixel<C> at(std::int32_t y, std::int32_t x) const {
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
SLIPSTREAM_HOST_DEVICE Pixel<C> all_of(float value) {
  Pixel<C> pixel;
  for (int c = 0; c < C; ++c) pixel.value[c] = value;
  return pixel;
}

template <typename Drawn>
SLIPSTREAM_HOST_DEVICE const Drawn& drawn_at(const ProgramStep& step, const std::byte* drawn) {
  return *reinterpret_cast<const Drawn*>(drawn + step.drawn);
}

/// Where the way back from a pixel ended: at the source, or where a step fills.
struct Origin {
  std::int32_t y;
  std::int32_t x;
  std::int32_t next;  ///< the first step that the value then goes through
  bool is_filled;
  float fill;
};

SLIPSTREAM_HOST_DEVICE inline bool is_within(std::int32_t at, std::int32_t size) {
  return static_cast<std::uint32_t>(at) < static_cast<std::uint32_t>(size);
}

/// Back from (y, x) behind step `last` - 1 to before step `first`; none of them interpolates.
SLIPSTREAM_HOST_DEVICE inline Origin way_back(const PassProgram& pass, const std::byte* drawn,
                                              std::int32_t first, std::int32_t last, std::int32_t y,
                                              std::int32_t x) {
  for (std::int32_t i = last - 1; i >= first; --i) {
    const ProgramStep& step = pass.steps[i];
    bool may_leave = false;
    switch (step.kind) {
      case StepKind::crop: {
        const Region& region = drawn_at<DrawnCrop>(step, drawn).region;
        y += static_cast<std::int32_t>(region.top);
        x += static_cast<std::int32_t>(region.left);
        may_leave = true;
        break;
      }
      case StepKind::flip_across:
        if (drawn_at<HorizontalFlip::Drawn>(step, drawn).flips) x = step.in_width - 1 - x;
        break;
      case StepKind::flip_down:
        if (drawn_at<VerticalFlip::Drawn>(step, drawn).flips) y = step.in_height - 1 - y;
        break;
      case StepKind::warp: {
        const Coordinate at = source_of(drawn_at<DrawnWarp>(step, drawn), x, y);
        y = nearest_pixel(at.y);
        x = nearest_pixel(at.x);
        may_leave = true;
        break;
      }
      default:
        break;
    }
    if (may_leave && !(is_within(y, step.in_height) && is_within(x, step.in_width))) {
      return {y, x, i + 1, true, step.fill};
    }
  }
  return {y, x, first, false, 0.0F};
}

/// The part of the image before it that a resizing step reads.
struct ResizedRegion {
  std::int32_t top;
  std::int32_t left;
  std::int32_t height;
  std::int32_t width;
};

SLIPSTREAM_HOST_DEVICE inline ResizedRegion region_of(const ProgramStep& step,
                                                      const std::byte* drawn) {
  if (step.kind == StepKind::resize) return {0, 0, step.in_height, step.in_width};
  const Region& region = drawn_at<DrawnCrop>(step, drawn).region;
  const auto height = static_cast<std::int32_t>(region.height);
  const auto width = static_cast<std::int32_t>(region.width);
  // Of a batch of zeros one pixel.
  return {static_cast<std::int32_t>(region.top), static_cast<std::int32_t>(region.left),
          height > 0 ? height : 1, width > 0 ? width : 1};
}

/// What all pixels of one image share.
struct Prepared {
  // Plain moves: pixel (y, x) behind them is (top + down y, left + right x) of the source.
  std::int32_t top;
  std::int32_t left;
  std::int32_t down;
  std::int32_t right;
  // A resizing step.
  ResizedRegion region;
  float scale_y;
  float scale_x;
};

SLIPSTREAM_HOST_DEVICE inline Prepared prepared_for(const PassProgram& pass,
                                                    const std::byte* drawn) {
  const std::int32_t last = pass.interpolation >= 0 ? pass.interpolation : pass.stencil;
  Prepared result{0, 0, 1, 1, {}, 0.0F, 0.0F};
  if (pass.has_plain_moves) {
    const Origin first = way_back(pass, drawn, 0, last, 0, 0);
    const Origin next = way_back(pass, drawn, 0, last, 1, 1);
    result.top = first.y;
    result.left = first.x;
    result.down = next.y - first.y;
    result.right = next.x - first.x;
  }
  if (pass.interpolation < 0 || pass.steps[last].kind == StepKind::warp) return result;
  const ProgramStep& step = pass.steps[last];
  result.region = region_of(step, drawn);
  result.scale_y = static_cast<float>(result.region.height) / static_cast<float>(step.out_height);
  result.scale_x = static_cast<float>(result.region.width) / static_cast<float>(step.out_width);
  return result;
}

template <int C>
SLIPSTREAM_HOST_DEVICE void advance(const ProgramStep& step, Pixel<C>& pixel) {
  for (int c = 0; c < C; ++c) {
    float& value = pixel.value[c];
    switch (step.kind) {
      case StepKind::to_float:
        value = from_level(value);
        break;
      case StepKind::normalise:
        if (step.range == Range::levels) value = from_level(value);
        value = (value - step.mean[c]) / step.std[c];
        break;
      default:
        return;
    }
  }
}

/// Through the steps from `first` until before `last`: those that need no other pixel.
template <int C>
SLIPSTREAM_HOST_DEVICE void go_through(const PassProgram& pass, std::int32_t first,
                                       std::int32_t last, Pixel<C>& pixel) {
  for (std::int32_t i = first; i < last; ++i) advance<C>(pass.steps[i], pixel);
}

/// One image on its way through a pass.
struct Image {
  const PassProgram& pass;
  const std::byte* drawn;
  const Prepared& prepared;
  Source source;
};

/// Pixel (y, x) as it is before step `last`, the first that interpolates or takes neighbours.
template <int C>
SLIPSTREAM_HOST_DEVICE Pixel<C> moved_pixel(const Image& image, std::int32_t last, std::int32_t y,
                                            std::int32_t x) {
  const PassProgram& pass = image.pass;
  const Source& source = image.source;
  if (pass.has_plain_moves) {
    const Prepared& to = image.prepared;
    Pixel<C> pixel = source.at<C>(to.top + to.down * y, to.left + to.right * x);
    for (std::int32_t i = 0; i < pass.plain_count; ++i) {
      advance<C>(pass.steps[pass.plain_steps[i]], pixel);
    }
    return pixel;
  }
  const std::byte* drawn = image.drawn;
  const Origin origin = way_back(pass, drawn, 0, last, y, x);
  Pixel<C> pixel = origin.is_filled ? all_of<C>(origin.fill) : source.at<C>(origin.y, origin.x);
  go_through<C>(pass, origin.next, last, pixel);
  return pixel;
}

/// The image before the interpolating step, pixel by pixel.
template <int C>
struct Before {
  const Image& image;

  SLIPSTREAM_HOST_DEVICE Pixel<C> at(std::int32_t y, std::int32_t x) const {
    return moved_pixel<C>(image, image.pass.interpolation, y, x);
  }
};

template <int C>
SLIPSTREAM_HOST_DEVICE Pixel<C> between(const Pixel<C>& first, const Pixel<C>& second,
                                        float weight) {
  Pixel<C> result;
  for (int c = 0; c < C; ++c) {
    result.value[c] = slipstream::between(first.value[c], second.value[c], weight);
  }
  return result;
}

template <int C>
SLIPSTREAM_HOST_DEVICE Pixel<C> warped(const Before<C>& before, const ProgramStep& step,
                                       std::int32_t y, std::int32_t x) {
  const Coordinate at = source_of(drawn_at<DrawnWarp>(step, before.image.drawn), x, y);
  const std::int32_t left = whole_below(at.x);
  const std::int32_t top = whole_below(at.y);
  const float across = at.x - static_cast<float>(left);
  const auto value = [&](std::int32_t row, std::int32_t column) {
    if (is_within(row, step.in_height) && is_within(column, step.in_width)) {
      return before.at(row, column);
    }
    return all_of<C>(step.fill);
  };
  const Pixel<C> upper = between<C>(value(top, left), value(top, left + 1), across);
  const Pixel<C> lower = between<C>(value(top + 1, left), value(top + 1, left + 1), across);
  return between<C>(upper, lower, at.y - static_cast<float>(top));
}

/// In float32, each axis filtered where it shrinks and antialiasing is asked for.
template <int C>
SLIPSTREAM_HOST_DEVICE Pixel<C> resized_floats(const Before<C>& before, const ProgramStep& step,
                                               std::int32_t y, std::int32_t x) {
  const ResizedRegion& region = before.image.prepared.region;
  const auto row_value = [&](std::int32_t row) {
    row += region.top;
    if (!step.antialias || region.width <= step.out_width) {
      const Neighbours of = resized_axis(x, region.width, before.image.prepared.scale_x);
      return between<C>(before.at(row, region.left + of.first),
                        before.at(row, region.left + of.second), of.weight);
    }
    const TriangleFilter filter(region.width, step.out_width);
    const double total = filter.sum(x);
    const std::int64_t begin = filter.begin(x);
    Pixel<C> sum;
    for (std::int64_t i = begin; i < filter.end(x); ++i) {
      const float weight = filtered_weight(filter.weight(x, i, total));
      const Pixel<C> pixel = before.at(row, region.left + static_cast<std::int32_t>(i));
      for (int c = 0; c < C; ++c) {
        sum.value[c] =
            i == begin ? weight * pixel.value[c] : fused(weight, pixel.value[c], sum.value[c]);
      }
    }
    return sum;
  };
  if (!step.antialias || region.height <= step.out_height) {
    const Neighbours of = resized_axis(y, region.height, before.image.prepared.scale_y);
    return between<C>(row_value(of.first), row_value(of.second), of.weight);
  }
  const TriangleFilter filter(region.height, step.out_height);
  const double total = filter.sum(y);
  const std::int64_t begin = filter.begin(y);
  Pixel<C> sum;
  for (std::int64_t i = begin; i < filter.end(y); ++i) {
    const float weight = filtered_weight(filter.weight(y, i, total));
    const Pixel<C> row = row_value(static_cast<std::int32_t>(i));
    for (int c = 0; c < C; ++c) {
      sum.value[c] = i == begin ? weight * row.value[c] : fused(weight, row.value[c], sum.value[c]);
    }
  }
  return sum;
}

SLIPSTREAM_HOST_DEVICE inline std::int32_t fixed_level(std::int32_t sum) {
  const std::int32_t level = sum >> TriangleFilter::kFractionBits;
  return level < 0 ? 0 : (level > 255 ? 255 : level);
}

/// Of levels with antialiasing: in fixed point, each pass rounded.
template <int C>
SLIPSTREAM_HOST_DEVICE Pixel<C> resized_levels(const Before<C>& before, const ProgramStep& step,
                                               std::int32_t y, std::int32_t x) {
  constexpr std::int32_t kHalf = 1 << (TriangleFilter::kFractionBits - 1);
  const ResizedRegion& region = before.image.prepared.region;
  const TriangleFilter across(region.width, step.out_width);
  const TriangleFilter down(region.height, step.out_height);
  const double across_total = across.sum(x);
  const double down_total = down.sum(y);
  std::int32_t sums[C];
  for (int c = 0; c < C; ++c) sums[c] = kHalf;
  for (std::int64_t j = down.begin(y); j < down.end(y); ++j) {
    std::int32_t row[C];
    for (int c = 0; c < C; ++c) row[c] = kHalf;
    for (std::int64_t i = across.begin(x); i < across.end(x); ++i) {
      const std::int32_t weight = across.weight(x, i, across_total);
      const Pixel<C> pixel = before.at(region.top + static_cast<std::int32_t>(j),
                                       region.left + static_cast<std::int32_t>(i));
      for (int c = 0; c < C; ++c) row[c] += weight * static_cast<std::int32_t>(pixel.value[c]);
    }
    const std::int32_t weight = down.weight(y, j, down_total);
    for (int c = 0; c < C; ++c) sums[c] += weight * fixed_level(row[c]);
  }
  Pixel<C> result;
  for (int c = 0; c < C; ++c) result.value[c] = static_cast<float>(fixed_level(sums[c]));
  return result;
}

template <int C>
SLIPSTREAM_HOST_DEVICE Pixel<C> interpolated(const Before<C>& before, const ProgramStep& step,
                                             std::int32_t y, std::int32_t x) {
  const bool is_levels = step.range == Range::levels;
  if (step.kind != StepKind::warp && is_levels && step.antialias) {
    return resized_levels(before, step, y, x);
  }
  Pixel<C> pixel =
      step.kind == StepKind::warp ? warped(before, step, y, x) : resized_floats(before, step, y, x);
  if (!is_levels) return pixel;
  for (int c = 0; c < C; ++c) pixel.value[c] = to_level(pixel.value[c]);
  return pixel;
}

/// Pixel (y, x) as it is before the stencil, or at the end where there is none.
template <int C, bool kInterpolates>
SLIPSTREAM_HOST_DEVICE Pixel<C> pixel_before_stencil(const Image& image, std::int32_t y,
                                                     std::int32_t x) {
  const PassProgram& pass = image.pass;
  if constexpr (!kInterpolates) return moved_pixel<C>(image, pass.stencil, y, x);
  const std::int32_t behind = pass.interpolation + 1;
  const Origin origin = way_back(pass, image.drawn, behind, pass.stencil, y, x);
  Pixel<C> pixel = origin.is_filled ? all_of<C>(origin.fill)
                                    : interpolated(Before<C>{image}, pass.steps[pass.interpolation],
                                                   origin.y, origin.x);
  go_through<C>(pass, origin.next, pass.stencil, pixel);
  return pixel;
}

/// The source of output i of `out` in a mask that is resized, in integers.
SLIPSTREAM_HOST_DEVICE inline std::int32_t nearest_input(std::int32_t i, std::int32_t in,
                                                         std::int32_t out) {
  return static_cast<std::int32_t>((2 * static_cast<std::int64_t>(i) + 1) * in /
                                   (2 * static_cast<std::int64_t>(out)));
}

/// Back from (y, x) at the end of a mask's pass to its source.
SLIPSTREAM_HOST_DEVICE inline Origin mask_origin(const PassProgram& pass, const std::byte* drawn,
                                                 std::int32_t y, std::int32_t x) {
  Origin at{y, x, 0, false, 0.0F};
  for (std::int32_t last = pass.count; last > 0 && !at.is_filled; --last) {
    const ProgramStep& step = pass.steps[last - 1];
    if (step.kind == StepKind::resize || step.kind == StepKind::resize_crop) {
      const ResizedRegion region = region_of(step, drawn);
      at.y = region.top + nearest_input(at.y, region.height, step.out_height);
      at.x = region.left + nearest_input(at.x, region.width, step.out_width);
    } else {
      at = way_back(pass, drawn, last - 1, last, at.y, at.x);
    }
  }
  return at;
}

}  // namespace slipstream::augment
