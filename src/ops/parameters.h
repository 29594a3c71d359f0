#pragma once

#include "slipstream/ops/batch_ops.h"
#include "slipstream/ops/blur.h"
#include "slipstream/ops/color.h"
#include "slipstream/ops/masking.h"
#include "slipstream/ops/resize.h"
#include "slipstream/ops/transforms.h"
#include "slipstream/ops/warp.h"

// visit_parameters(visit, op) calls visit(key, member, need) for every parameter of an operation,
// in the order that they are written in: the one list that reading and writing share.
namespace slipstream::chain {

enum class Need : std::uint8_t { required, optional };

constexpr std::string_view name_of(Interpolation interpolation) {
  return interpolation == Interpolation::nearest ? "nearest" : "bilinear";
}

template <typename Visit, typename Op>
void visit_sides(Visit& visit, Op& op) {
  visit("height", op.height, Need::required);
  visit("width", op.width, Need::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, Resize& op) {
  visit_sides(visit, op);
  visit("antialias", op.antialias, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, CenterCrop& op) {
  visit_sides(visit, op);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomCrop& op) {
  visit_sides(visit, op);
  visit("padding", op.padding, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomResizedCrop& op) {
  visit_sides(visit, op);
  visit("scale_min", op.scale_min, Need::optional);
  visit("scale_max", op.scale_max, Need::optional);
  visit("ratio_min", op.ratio_min, Need::optional);
  visit("ratio_max", op.ratio_max, Need::optional);
  visit("antialias", op.antialias, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, HorizontalFlip& op) {
  visit("probability", op.probability, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, VerticalFlip& op) {
  visit("probability", op.probability, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Rotate& op) {
  visit("degrees_min", op.degrees_min, Need::required);
  visit("degrees_max", op.degrees_max, Need::required);
  visit("interpolation", op.interpolation, Need::optional);
  visit("fill", op.fill, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Affine& op) {
  visit("degrees_min", op.degrees_min, Need::optional);
  visit("degrees_max", op.degrees_max, Need::optional);
  visit("translate_x", op.translate_x, Need::optional);
  visit("translate_y", op.translate_y, Need::optional);
  visit("scale_min", op.scale_min, Need::optional);
  visit("scale_max", op.scale_max, Need::optional);
  visit("shear_x_min", op.shear_x_min, Need::optional);
  visit("shear_x_max", op.shear_x_max, Need::optional);
  visit("shear_y_min", op.shear_y_min, Need::optional);
  visit("shear_y_max", op.shear_y_max, Need::optional);
  visit("interpolation", op.interpolation, Need::optional);
  visit("fill", op.fill, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, GaussianBlur& op) {
  visit("size", op.size, Need::required);
  visit("sigma_min", op.sigma_min, Need::required);
  visit("sigma_max", op.sigma_max, Need::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, ColorJitter& op) {
  visit("brightness_min", op.brightness_min, Need::optional);
  visit("brightness_max", op.brightness_max, Need::optional);
  visit("contrast_min", op.contrast_min, Need::optional);
  visit("contrast_max", op.contrast_max, Need::optional);
  visit("saturation_min", op.saturation_min, Need::optional);
  visit("saturation_max", op.saturation_max, Need::optional);
  visit("hue_min", op.hue_min, Need::optional);
  visit("hue_max", op.hue_max, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Grayscale& op) {
  visit("probability", op.probability, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomErasing& op) {
  visit("probability", op.probability, Need::optional);
  visit("scale_min", op.scale_min, Need::optional);
  visit("scale_max", op.scale_max, Need::optional);
  visit("ratio_min", op.ratio_min, Need::optional);
  visit("ratio_max", op.ratio_max, Need::optional);
  visit("value", op.value, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomMask& op) {
  visit("probability", op.probability, Need::optional);
  visit("dilate", op.dilate, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, ConvertColor& op) {
  visit("matrix", op.matrix, Need::optional);
  visit("offset", op.offset, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Scale& op) {
  visit("divisor", op.divisor, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit&, ToFloat&) {}

template <typename Visit>
void visit_parameters(Visit& visit, Normalize& op) {
  visit("mean", op.mean, Need::required);
  visit("std", op.std, Need::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, Mixup& op) {
  visit("alpha", op.alpha, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, CutMix& op) {
  visit("alpha", op.alpha, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, OneHot& op) {
  visit("smoothing", op.smoothing, Need::optional);
}

/// call(Op{}) for every operation that a chain file may name, until one returns true.
template <typename Call>
bool any_operation(Call call) {
  return call(Resize{}) || call(CenterCrop{}) || call(RandomCrop{}) || call(RandomResizedCrop{}) ||
         call(HorizontalFlip{}) || call(VerticalFlip{}) || call(Rotate{}) || call(Affine{}) ||
         call(GaussianBlur{}) || call(ColorJitter{}) || call(Grayscale{}) ||
         call(RandomErasing{}) || call(RandomMask{}) || call(ConvertColor{}) || call(Scale{}) ||
         call(ToFloat{}) || call(Normalize{}) || call(Mixup{}) || call(CutMix{}) || call(OneHot{});
}

}  // namespace slipstream::chain
