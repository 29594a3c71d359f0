#include "cuda/augment/lower.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "cuda/augment/divisor.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/auto_augment.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/warp.h"
#include "transforms/adjust_math.h"
#include "transforms/geometry.h"
#include "transforms/padding.h"
#include "transforms/pointwise.h"

namespace slipstream::augment {
namespace {

void set_fill(double value, ProgramStep& step) {
  for (float& fill : step.fill) fill = filling(value);
}

void lower(const CenterCrop&, ProgramStep& step) {
  step.kind = StepKind::crop;
  step.pads = step.in_height < step.out_height || step.in_width < step.out_width;
}

template <typename Op>
void lower_padding(const Op& op, ProgramStep& step) {
  step.kind = StepKind::crop;
  step.padding_mode = op.padding_mode;
  for (std::size_t c = 0; c < 4; ++c) {
    step.fill[c] = filling(op.fill[std::min(c, op.fill.size() - 1)]);
  }
}

void lower(const RandomCrop& op, ProgramStep& step) {
  lower_padding(op, step);
  step.pads = op.pads();
  // Without padding, no pixel is outside of the image.
  if (!step.pads) step.padding_mode = PaddingMode::constant;
}
void lower(const Pad& op, ProgramStep& step) {
  lower_padding(op, step);
  step.pads = op.padding != Padding{};
}

/// Returns the bits of the value with which `op` pads masks.
std::uint64_t mask_fill(const AnyOp& op, DType dtype) {
  std::uint64_t bits = 0;
  const auto store = [&](const auto* held) {
    if (held != nullptr) store_fill(held->fill, dtype, 1, reinterpret_cast<std::byte*>(&bits));
  };
  store(op.get_if<RandomCrop>());
  store(op.get_if<Pad>());
  return bits;
}
void lower(const RandomHorizontalFlip&, ProgramStep& step) { step.kind = StepKind::flip_across; }
void lower(const RandomVerticalFlip&, ProgramStep& step) { step.kind = StepKind::flip_down; }

template <typename Op>
void lower_resize(const Op& op, StepKind kind, ProgramStep& step) {
  step.kind = kind;
  step.interpolation = op.interpolation;
  step.interpolates =
      op.interpolation == Interpolation::bilinear || op.interpolation == Interpolation::bicubic;
  step.antialias = op.antialias;
}

void lower(const Resize& op, ProgramStep& step) { lower_resize(op, StepKind::resize, step); }
void lower(const RandomResizedCrop& op, ProgramStep& step) {
  lower_resize(op, StepKind::resize_crop, step);
}

template <typename Op>
void lower_warp(const Op& op, ProgramStep& step) {
  step.kind = StepKind::warp;
  step.interpolates = op.interpolation == Interpolation::bilinear;
  set_fill(op.fill, step);
}

void lower(const RandomRotation& op, ProgramStep& step) {
  lower_warp(op, step);
  step.is_rigid = true;
}
void lower(const RandomAffine& op, ProgramStep& step) { lower_warp(op, step); }

void lower(const GaussianBlur& op, ProgramStep& step) {
  step.kind = StepKind::blur;
  step.radius = static_cast<std::int32_t>(op.kernel_size / 2);
}

void lower(const Divide& op, ProgramStep& step) {
  step.kind = StepKind::scale;
  for (Divisor& divisor : step.divisor) divisor = make_divisor(static_cast<float>(op.divisor));
}

void lower(const ToDtype& op, ProgramStep& step) {
  if (!op.scale || step.range == Range::unit) return lower(Divide{.divisor = 1}, step);
  step.kind = StepKind::to_float;
}

void lower(const ConvertColor& op, ProgramStep& step) {
  step.kind = StepKind::convert_color;
  step.matrix = to_float32(op);
}

void lower(const Grayscale&, ProgramStep& step) { step.kind = StepKind::grayscale; }
void lower(const RandomGrayscale&, ProgramStep& step) { step.kind = StepKind::grayscale; }

void lower(const ColorJitter& op, ProgramStep& step) {
  step.kind = StepKind::jitter;
  step.statistic = static_cast<std::int8_t>(op.changes_contrast() ? 0 : -1);
}

void lower_adjustment(StepKind kind, ProgramStep& step) {
  static_assert(sizeof(DrawnAdjustment) == 1);  // the next bytes of the sample's block are 0
  step.kind = kind;
  step.switches[step.switch_count++] = {step.drawn, 1, 1};
}

void lower(const RandomInvert&, ProgramStep& step) { lower_adjustment(StepKind::invert, step); }

void lower(const RandomPosterize& op, ProgramStep& step) {
  lower_adjustment(StepKind::posterize, step);
  step.bits = static_cast<std::int32_t>(op.bits);
}

void lower(const RandomSolarize& op, ProgramStep& step) {
  lower_adjustment(StepKind::solarize, step);
  step.amount = static_cast<float>(op.threshold);
}

void lower(const RandomAdjustSharpness& op, ProgramStep& step) {
  lower_adjustment(StepKind::sharpen, step);
  step.radius = 1;
  step.amount = sharpness_weight(op.sharpness_factor);
}

void lower(const RandomAutocontrast&, ProgramStep& step) {
  lower_adjustment(StepKind::stretch, step);
  step.statistic = 0;
}

void lower(const RandomEqualize&, ProgramStep& step) {
  lower_adjustment(StepKind::equalize, step);
  step.statistic = 0;
}

void lower(const RandomErasing& op, ProgramStep& step) {
  step.kind = StepKind::erase;
  set_fill(op.value, step);
}

void lower(const RandomMask& op, ProgramStep& step) {
  step.kind = StepKind::mask;
  step.threshold = op.threshold();
  step.dilates = op.dilate;
}

void lower(const Normalize& op, ProgramStep& step) {
  step.kind = StepKind::normalize;
  const ChannelStatistics statistics = to_float32(op);
  for (std::size_t c = 0; c < 4; ++c) {
    step.subtracted[c] = statistics.mean[c];
    step.divisor[c] = make_divisor(statistics.std[c]);
  }
}

/// Returns true if every pixel is at an edge, where nothing is sharpened.
bool changes_nothing(const ProgramStep& step) {
  return step.kind == StepKind::sharpen && (step.in_height < 3 || step.in_width < 3);
}

/// Converts `op` if it is an Op, else returns false.
template <typename Op>
bool lower_as(const AnyOp& op, ProgramStep& step) {
  const Op* held = op.get_if<Op>();
  if (held == nullptr) return false;
  lower(*held, step);
  return true;
}

template <typename... Ops>
bool lower_as_any(const AnyOp& op, ProgramStep& step) {
  return (lower_as<Ops>(op, step) || ...);
}

/// Properties of all lists of augmentations that an operation applies.
struct AugmentationList {
  std::int64_t count;  ///< the largest possible length
  Interpolation interpolation;
  double fill;
};

std::optional<AugmentationList> augmentation_list(const AnyOp& op) {
  if (const auto* held = op.get_if<RandAugment>())
    return AugmentationList{held->num_ops, held->interpolation, held->fill};
  if (const auto* held = op.get_if<TrivialAugmentWide>())
    return AugmentationList{1, held->interpolation, held->fill};
  if (const auto* held = op.get_if<AutoAugment>())
    return AugmentationList{2, held->interpolation, held->fill};
  return std::nullopt;
}

[[noreturn]] void refuse_step(const NamedOp& transform, const std::string& problem) {
  throw Refused("transform '" + transform.name + "': " + problem);
}

/// Converts the operations of one step of a chain.
class Lowering {
 public:
  Lowering(const NamedOp& transform, const FieldSpec& before, const FieldSpec& after)
      : transform_(transform), before_(before), after_(after) {
    empty_.statistic = -1;
    empty_.range = dtype_range(before.dtype);
    empty_.in_height = side(before.shape, 0);
    empty_.in_width = side(before.shape, 1);
    empty_.out_height = side(after.shape, 0);
    empty_.out_width = side(after.shape, 1);
  }

  /// Adds the steps of `named`, whose parameters are at offset `drawn`. `contained` are the
  /// operations in it, if it is a container.
  void add(const NamedOp& named, std::size_t drawn,
           const std::vector<DeviceChain::Contained>& contained) {
    if (!named.op.touches(before_.kind)) return;
    if (!contained.empty()) return add_contained(named, drawn, contained);
    require_switch();
    if (const auto list = augmentation_list(named.op))
      return add_augmentations(named, drawn, *list);
    ProgramStep step = empty_;
    step.drawn = static_cast<std::uint32_t>(drawn);
    if (named.op.device_function()) {
      step.kind = StepKind::function;
    } else if (!lower_as_any<CenterCrop, RandomCrop, Pad, RandomResizedCrop, Resize,
                             RandomHorizontalFlip, RandomVerticalFlip, RandomRotation, RandomAffine,
                             GaussianBlur, ToDtype, Normalize, Divide, ConvertColor, Grayscale,
                             RandomGrayscale, ColorJitter, RandomErasing, RandomMask, RandomInvert,
                             RandomPosterize, RandomSolarize, RandomAdjustSharpness,
                             RandomAutocontrast, RandomEqualize>(named.op, step)) {
      refuse_step(transform_, "'" + std::string(named.op.name()) +
                                  "' cannot run on the device; run it on the loader's threads");
    }
    if (before_.kind == FieldKind::mask) {
      step.interpolates = false;
      step.interpolation = mask_interpolation(step.interpolation);
      step.mask_fill = mask_fill(named.op, before_.dtype);
    }
    if (!changes_nothing(step)) steps_.push_back({step, &named});
  }

  std::vector<LoweredStep> take() { return std::move(steps_); }

 private:
  void add_contained(const NamedOp& container, std::size_t drawn,
                     const std::vector<DeviceChain::Contained>& contained) {
    const bool is_choice = container.op.get_if<RandomChoice>() != nullptr;
    if (before_.dtype != after_.dtype || before_.shape != after_.shape)
      refuse_step(transform_,
                  "'" + std::string(container.op.name()) + "' changes the size or dtype of '" +
                      before_.name +
                      "', which the device does not support; run it on the loader's threads");
    require_switch();
    Switch& by = empty_.switches[empty_.switch_count++];
    for (std::size_t i = 0; i < contained.size(); ++i) {
      const std::int32_t applied = is_choice ? static_cast<std::int32_t>(i) : 1;
      by = {static_cast<std::uint32_t>(drawn + offsetof(DrawnContainer, choice)), applied, applied};
      add(contained[i].named, contained[i].drawn_offset_bytes, contained[i].contained);
    }
    --empty_.switch_count;
  }

  /// Adds three steps for each augmentation of a list, at most one of which is applied to a sample.
  void add_augmentations(const NamedOp& named, std::size_t drawn, const AugmentationList& list) {
    for (std::int64_t i = 0; i < list.count; ++i) {
      const std::size_t at = drawn + offsetof(DrawnAugmentations, steps) +
                             static_cast<std::size_t>(i) * sizeof(DrawnAugmentations::Step);
      ProgramStep warp =
          augmentation_step(StepKind::warp, at, Augmentation::shear_x, Augmentation::rotate);
      warp.drawn += offsetof(DrawnAugmentations::Step, warp);
      warp.interpolates = list.interpolation == Interpolation::bilinear;
      set_fill(list.fill, warp);
      ProgramStep values =
          augmentation_step(StepKind::augment, at, Augmentation::brightness, Augmentation::invert);
      values.statistic = 0;
      ProgramStep sharpen = augmentation_step(StepKind::sharpen, at, Augmentation::sharpness,
                                              Augmentation::sharpness);
      sharpen.radius = 1;
      sharpen.draws_amount = true;
      for (const ProgramStep& step : {warp, values, sharpen})
        if (!changes_nothing(step)) steps_.push_back({step, &named});
    }
  }

  /// Returns a step for the samples with an augmentation `first` to `last` at offset `at`.
  ProgramStep augmentation_step(StepKind kind, std::size_t at, Augmentation first,
                                Augmentation last) const {
    ProgramStep step = empty_;
    step.kind = kind;
    step.drawn = static_cast<std::uint32_t>(at);
    step.switches[step.switch_count++] = {
        static_cast<std::uint32_t>(at + offsetof(DrawnAugmentations::Step, kind)),
        static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)};
    return step;
  }

  void require_switch() const {
    if (empty_.switch_count < kMostSwitches) return;
    refuse_step(transform_, "more than " + std::to_string(kMostSwitches - 1) +
                                " containers inside of each other cannot run on the device; "
                                "run them on the loader's threads");
  }

  const NamedOp& transform_;
  const FieldSpec& before_;
  const FieldSpec& after_;
  ProgramStep empty_ = {};  ///< has the switches of the containers that are being converted
  std::vector<LoweredStep> steps_;
};

}  // namespace

Range dtype_range(DType dtype) { return dtype == DType::uint8 ? Range::levels : Range::unit; }

std::int32_t side(const Shape& shape, std::size_t i) { return static_cast<std::int32_t>(shape[i]); }

std::vector<LoweredStep> lowered(const DeviceChain::Step& step, const FieldSpec& before,
                                 const FieldSpec& after) {
  Lowering lowering(step.named, before, after);
  lowering.add(step.named, step.drawn_offset_bytes, step.contained);
  return lowering.take();
}

}  // namespace slipstream::augment
