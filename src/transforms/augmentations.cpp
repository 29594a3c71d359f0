#include "transforms/augmentations.h"

#include <algorithm>
#include <utility>

#include "slipstream/transforms/adjust.h"
#include "transforms/adjust_math.h"
#include "transforms/best_code.h"
#include "transforms/geometry.h"
#include "transforms/pixel_field.h"
#include "transforms/pixel_planes.h"
#include "transforms/warp_maps.h"
#include "transforms/warp_pixels.h"

namespace slipstream {
namespace {

DrawnWarp sheared(float along_x, float along_y, const Shape& shape) {
  // Pixel centers are integers, so the upper left corner of the image is at -1 / 2, -1 / 2.
  return {{1, along_x, along_x / 2, along_y, 1, along_y / 2},
          static_cast<std::int32_t>(shape[0]),
          static_cast<std::int32_t>(shape[1])};
}

DrawnWarp translated(float right, float down, const Shape& shape) {
  return {{1, 0, -right, 0, 1, -down},
          static_cast<std::int32_t>(shape[0]),
          static_cast<std::int32_t>(shape[1])};
}

/// Replaces each pixel of C channels by change(pixel).
template <int C, typename Change>
void change_pixels(const ConstArray& in, const MutableArray& out, const Change& change) {
  const auto* from = in.as<std::uint8_t>();
  auto* to = out.as<std::uint8_t>();
  const std::size_t pixels = in.shape.elements() / C;
  with_best_code([=] {
    change_planes<C>(from, to, pixels,
                     [&](Planes<C>& planes, std::size_t count) { planes.change(count, change); });
  });
}

template <int C>
float mean_gray(const ConstArray& in) {
  const std::size_t pixels = count_pixels(in);
  std::int64_t sum = 0;
  with_best_code([&] {
    read_planes<C>(in.as<std::uint8_t>(), pixels, [&](const Planes<C>& planes, std::size_t count) {
      std::int32_t part = 0;  // fits: kPlaneLength times 255
      for (std::size_t i = 0; i < count; ++i)
        part += static_cast<std::int32_t>(truncated_gray(planes.pixel(i)));
      sum += part;
    });
  });
  return mean_level(sum, static_cast<std::int64_t>(pixels), Range::levels);
}

void change_brightness(float magnitude, const ConstArray& in, const MutableArray& out) {
  change_pixels<1>(
      in, out, [=](Pixel<1> pixel) { return Pixel<1>{{brightened(pixel.value[0], magnitude)}}; });
}

void change_color(float magnitude, const ConstArray& in, const MutableArray& out) {
  if (in.shape[2] == 1) return copy_all(in, out);
  change_pixels<3>(in, out, [=](Pixel<3> pixel) { return with_color(pixel, magnitude); });
}

void change_contrast(float magnitude, const ConstArray& in, const MutableArray& out) {
  if (count_pixels(in) == 0) return;
  const float mean = in.shape[2] == 1 ? mean_gray<1>(in) : mean_gray<3>(in);
  change_pixels<1>(in, out, [=](Pixel<1> pixel) {
    return Pixel<1>{{truncated_blend(pixel.value[0], mean, magnitude)}};
  });
}

/// Applies an operation of adjust.h.
template <typename Op>
void adjust(const Op& op, const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  op.apply({true}, FieldKind::image, in, out, scratch);
}

void apply_step(const DrawnAugmentations::Step& step, Interpolation interpolation, double fill,
                const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  const double magnitude = step.magnitude;
  switch (step.kind) {
    case Augmentation::identity:
      return copy_all(in, out);
    case Augmentation::shear_x:
    case Augmentation::shear_y:
    case Augmentation::translate_x:
    case Augmentation::translate_y:
    case Augmentation::rotate:
      return warp_pixels(step.warp, FieldKind::image, interpolation, filling(fill), in, out,
                         scratch);
    case Augmentation::brightness:
      return change_brightness(step.magnitude, in, out);
    case Augmentation::color:
      return change_color(step.magnitude, in, out);
    case Augmentation::contrast:
      return change_contrast(step.magnitude, in, out);
    case Augmentation::sharpness:
      return adjust(RandomAdjustSharpness{1 + magnitude}, in, out, scratch);
    case Augmentation::posterize:
      return adjust(RandomPosterize{static_cast<std::int64_t>(magnitude)}, in, out, scratch);
    case Augmentation::solarize:
      return adjust(RandomSolarize{solarize_threshold(step.magnitude)}, in, out, scratch);
    case Augmentation::auto_contrast:
      return adjust(RandomAutocontrast{}, in, out, scratch);
    case Augmentation::equalize:
      return adjust(RandomEqualize{}, in, out, scratch);
    case Augmentation::invert:
      return adjust(RandomInvert{}, in, out, scratch);
  }
}

}  // namespace

DrawnAugmentations::Step make_augmentation(Augmentation kind, float magnitude, const Shape& shape) {
  DrawnAugmentations::Step step{kind, magnitude, {}};
  const auto pixels = static_cast<float>(static_cast<std::int32_t>(magnitude));
  if (kind == Augmentation::shear_x) step.warp = sheared(magnitude, 0, shape);
  if (kind == Augmentation::shear_y) step.warp = sheared(0, magnitude, shape);
  if (kind == Augmentation::translate_x) step.warp = translated(pixels, 0, shape);
  if (kind == Augmentation::translate_y) step.warp = translated(0, pixels, shape);
  if (kind == Augmentation::rotate) step.warp = rotation(magnitude, shape);
  return step;
}

void apply_augmentations(std::string_view op, const DrawnAugmentations& drawn,
                         Interpolation interpolation, double fill, const ConstArray& in,
                         const MutableArray& out, Scratch& scratch) {
  require_drawn_for(op, {{}, drawn.height, drawn.width}, in);
  const auto* const end = drawn.steps + drawn.count;
  const auto changes = [](const DrawnAugmentations::Step& step) {
    return step.kind != Augmentation::identity;
  };
  auto left = std::count_if(drawn.steps, end, changes);
  if (left == 0) return copy_all(in, out);
  HostArray spare;
  // Results alternate between the two arrays, so that the last one is `out`.
  ConstArray from = in;
  for (const auto* step = drawn.steps; step != end; ++step) {
    if (!changes(*step)) continue;
    --left;
    const MutableArray to = left % 2 == 0 ? out : spare.reset(in.dtype, in.shape);
    apply_step(*step, interpolation, fill, from, to, scratch);
    from = to;
  }
}

}  // namespace slipstream
