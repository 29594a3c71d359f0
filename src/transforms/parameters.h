#pragma once

#include <array>
#include <vector>

#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/auto_augment.h"
#include "slipstream/transforms/batch_ops.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"

// visit_parameters(visit, op) calls visit(key, member, need) for every parameter of an operation,
// in the order in which they are written to JSON. Reading and writing share this list, so they
// cannot diverge.
namespace slipstream::chain {

enum class Presence : std::uint8_t { required, optional };

constexpr std::string_view to_string(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::nearest:
      return "nearest";
    case Interpolation::nearest_exact:
      return "nearest-exact";
    case Interpolation::bilinear:
      return "bilinear";
    case Interpolation::bicubic:
      return "bicubic";
  }
  return "";
}

constexpr std::string_view to_string(AutoAugmentPolicy policy) {
  if (policy == AutoAugmentPolicy::svhn) return "svhn";
  return policy == AutoAugmentPolicy::imagenet ? "imagenet" : "cifar10";
}

/// Meaning of a single number for a parameter with a minimum and a maximum.
enum class OneNumber : std::uint8_t {
  nothing,      ///< both numbers are required
  itself,       ///< x, x
  around_zero,  ///< -x, x
  around_one,   ///< max(0, 1 - x), 1 + x
};

/// A parameter of two numbers.
struct Pair {
  std::array<double, 2>& values;
  OneNumber one = OneNumber::nothing;
};

/// Values of the channels of a pixel: one number for all, or a list of one per channel.
struct Fill {
  std::vector<double>& values;
};

constexpr std::string_view to_string(PaddingMode mode) {
  switch (mode) {
    case PaddingMode::constant:
      return "constant";
    case PaddingMode::edge:
      return "edge";
    case PaddingMode::reflect:
      return "reflect";
    case PaddingMode::symmetric:
      return "symmetric";
  }
  return "";
}

/// Shear angles: four numbers. Two numbers are those along x; one number x means -x, x along x.
struct Shear {
  std::array<double, 4>& values;
};

/// The side of a square in pixels. Two numbers must be equal.
struct KernelSize {
  std::int64_t& side;
};

/// A list of numbers, one for each transform of a container. An empty list is not written.
struct Weights {
  std::vector<double>& values;
};

template <typename Visit>
void visit_parameters(Visit& visit, Resize& op) {
  visit("size", op.size, Presence::required);  // and "max_size"
  visit("interpolation", op.interpolation, Presence::optional);
  visit("antialias", op.antialias, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, CenterCrop& op) {
  visit("size", op.size, Presence::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomCrop& op) {
  visit("size", op.size, Presence::required);
  visit("padding", op.padding, Presence::optional);
  visit("pad_if_needed", op.pad_if_needed, Presence::optional);
  visit("fill", Fill{op.fill}, Presence::optional);
  visit("padding_mode", op.padding_mode, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Pad& op) {
  visit("padding", op.padding, Presence::required);
  visit("fill", Fill{op.fill}, Presence::optional);
  visit("padding_mode", op.padding_mode, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomResizedCrop& op) {
  visit("size", op.size, Presence::required);
  visit("scale", Pair{op.scale}, Presence::optional);
  visit("ratio", Pair{op.ratio}, Presence::optional);
  visit("interpolation", op.interpolation, Presence::optional);
  visit("antialias", op.antialias, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomHorizontalFlip& op) {
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomVerticalFlip& op) {
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomRotation& op) {
  visit("degrees", Pair{op.degrees, OneNumber::around_zero}, Presence::required);
  visit("interpolation", op.interpolation, Presence::optional);
  visit("fill", op.fill, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomAffine& op) {
  visit("degrees", Pair{op.degrees, OneNumber::around_zero}, Presence::required);
  visit("translate", Pair{op.translate}, Presence::optional);
  visit("scale", Pair{op.scale}, Presence::optional);
  visit("shear", Shear{op.shear}, Presence::optional);
  visit("interpolation", op.interpolation, Presence::optional);
  visit("fill", op.fill, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, GaussianBlur& op) {
  visit("kernel_size", KernelSize{op.kernel_size}, Presence::required);
  visit("sigma", Pair{op.sigma, OneNumber::itself}, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, ColorJitter& op) {
  visit("brightness", Pair{op.brightness, OneNumber::around_one}, Presence::optional);
  visit("contrast", Pair{op.contrast, OneNumber::around_one}, Presence::optional);
  visit("saturation", Pair{op.saturation, OneNumber::around_one}, Presence::optional);
  visit("hue", Pair{op.hue, OneNumber::around_zero}, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Grayscale& op) {
  visit("num_output_channels", op.num_output_channels, Presence::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomGrayscale& op) {
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomInvert& op) {
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomPosterize& op) {
  visit("bits", op.bits, Presence::required);
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomSolarize& op) {
  visit("threshold", op.threshold, Presence::required);
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomAdjustSharpness& op) {
  visit("sharpness_factor", op.sharpness_factor, Presence::required);
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomAutocontrast& op) {
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomEqualize& op) {
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomApply& op) {
  visit("transforms", op.transforms, Presence::required);
  visit("p", op.p, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomChoice& op) {
  visit("transforms", op.transforms, Presence::required);
  visit("p", Weights{op.p}, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandAugment& op) {
  visit("num_ops", op.num_ops, Presence::optional);
  visit("magnitude", op.magnitude, Presence::optional);
  visit("num_magnitude_bins", op.num_magnitude_bins, Presence::optional);
  visit("interpolation", op.interpolation, Presence::optional);
  visit("fill", op.fill, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, TrivialAugmentWide& op) {
  visit("num_magnitude_bins", op.num_magnitude_bins, Presence::optional);
  visit("interpolation", op.interpolation, Presence::optional);
  visit("fill", op.fill, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, AutoAugment& op) {
  visit("policy", op.policy, Presence::optional);
  visit("interpolation", op.interpolation, Presence::optional);
  visit("fill", op.fill, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomErasing& op) {
  visit("p", op.p, Presence::optional);
  visit("scale", Pair{op.scale}, Presence::optional);
  visit("ratio", Pair{op.ratio}, Presence::optional);
  visit("value", op.value, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomMask& op) {
  visit("p", op.p, Presence::optional);
  visit("dilate", op.dilate, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, ConvertColor& op) {
  visit("matrix", op.matrix, Presence::optional);
  visit("offset", op.offset, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Divide& op) {
  visit("divisor", op.divisor, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, ToDtype& op) {
  visit("dtype", op.dtype, Presence::required);
  visit("scale", op.scale, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, Normalize& op) {
  visit("mean", op.mean, Presence::required);
  visit("std", op.std, Presence::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, MixUp& op) {
  visit("alpha", op.alpha, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, CutMix& op) {
  visit("alpha", op.alpha, Presence::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, OneHot& op) {
  visit("label_smoothing", op.label_smoothing, Presence::optional);
}

/// Calls call(Op{}) for every operation that a chain file can name, until one returns true.
template <typename Call>
bool any_operation(Call call) {
  return call(Resize{}) || call(CenterCrop{}) || call(RandomCrop{}) || call(Pad{}) ||
         call(RandomResizedCrop{}) || call(RandomHorizontalFlip{}) || call(RandomVerticalFlip{}) ||
         call(RandomRotation{}) || call(RandomAffine{}) || call(GaussianBlur{}) ||
         call(ColorJitter{}) || call(Grayscale{}) || call(RandomGrayscale{}) ||
         call(RandomInvert{}) || call(RandomPosterize{}) || call(RandomSolarize{}) ||
         call(RandomAdjustSharpness{}) || call(RandomAutocontrast{}) || call(RandomEqualize{}) ||
         call(RandomApply{}) || call(RandomChoice{}) || call(RandAugment{}) ||
         call(TrivialAugmentWide{}) || call(AutoAugment{}) || call(RandomErasing{}) ||
         call(RandomMask{}) || call(ConvertColor{}) || call(Divide{}) || call(ToDtype{}) ||
         call(Normalize{}) || call(MixUp{}) || call(CutMix{}) || call(OneHot{});
}

}  // namespace slipstream::chain
