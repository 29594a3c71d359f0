#include "slipstream/transforms/auto_augment.h"

#include <cmath>
#include <string>

#include "slipstream/core/error.h"
#include "transforms/augmentations.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"
#include "transforms/padding.h"
#include "transforms/warp_maps.h"

namespace slipstream {
namespace {

/// The augmentations that RandAugment and TrivialAugmentWide choose from: all but invert.
constexpr std::uint32_t kKinds = 14;
constexpr std::int64_t kMostBins = 65'536;

/// The largest magnitudes of an operation.
struct Magnitudes {
  double shear;
  double translate_x, translate_y;  ///< pixels
  double degrees;
  double factor;    ///< of brightness, color, contrast and sharpness
  float posterize;  ///< number of bits that are removed
};

Magnitudes usual_magnitudes(const Shape& shape) {
  constexpr double kShare = 150.0 / 331.0;
  const double across = kShare * static_cast<double>(shape[1]);
  const double down = kShare * static_cast<double>(shape[0]);
  return {0.3, across, down, 30, 0.9, 4};
}

constexpr Magnitudes kWide = {0.99, 32, 32, 135, 0.99, 6};

/// Returns number `i` of `count` numbers from `first` to `last`, as torch.linspace does.
float evenly_spaced(double first, double last, std::int64_t count, std::int64_t i) {
  const auto low = static_cast<float>(first), high = static_cast<float>(last);
  const float step = (high - low) / static_cast<float>(count - 1);
  if (i < count / 2) return low + step * static_cast<float>(i);
  return high - step * static_cast<float>(count - i - 1);
}

/// Returns magnitude `i` of `bins` without its sign.
float magnitude_at(Augmentation kind, const Magnitudes& most, std::int64_t bins, std::int64_t i) {
  using enum Augmentation;
  switch (kind) {
    case shear_x:
    case shear_y:
      return evenly_spaced(0, most.shear, bins, i);
    case translate_x:
      return evenly_spaced(0, most.translate_x, bins, i);
    case translate_y:
      return evenly_spaced(0, most.translate_y, bins, i);
    case rotate:
      return evenly_spaced(0, most.degrees, bins, i);
    case brightness:
    case color:
    case contrast:
    case sharpness:
      return evenly_spaced(0, most.factor, bins, i);
    case posterize:
      return std::nearbyint(8 - static_cast<float>(i) /
                                    (static_cast<float>(bins - 1) / most.posterize));
    case solarize:
      return evenly_spaced(1, 0, bins, i);
    default:
      return 0;
  }
}

bool has_sign(Augmentation kind) {
  return kind >= Augmentation::shear_x && kind <= Augmentation::sharpness;
}

DrawnAugmentations begin_draw(std::string_view op, const Shape& shape) {
  require_countable(op, shape);
  DrawnAugmentations drawn;
  drawn.height = static_cast<std::int32_t>(shape[0]);
  drawn.width = static_cast<std::int32_t>(shape[1]);
  return drawn;
}

/// Generates a sign and, if `applies`, appends an augmentation.
void add(DrawnAugmentations& drawn, RandomStream& stream, bool applies, Augmentation kind,
         float magnitude, const Shape& shape) {
  const bool is_negative = stream.uniform() < 0.5F && has_sign(kind);
  if (!applies) return;
  drawn.steps[drawn.count] = make_augmentation(kind, is_negative ? -magnitude : magnitude, shape);
  ++drawn.count;
}

FieldSpec augmented(std::string_view op, const FieldSpec& in, double fill) {
  const bool has_channels = in.shape.rank == 3 && (in.shape[2] == 1 || in.shape[2] == 3);
  if (in.dtype != DType::uint8 || !has_channels)
    throw Refused(std::string(op) + ": image '" + in.name + "' is " +
                  std::string(to_string(in.dtype)) + ", " + to_string(in.shape) +
                  "; it must be uint8, height x width x 1 or 3: put " + std::string(op) +
                  " before operations that convert images to float32");
  require_fill_for(op, {fill}, in);
  return in;
}

void require_bins(std::string_view op, std::int64_t bins) {
  if (bins >= 2 && bins <= kMostBins) return;
  throw Refused(std::string(op) + ": num_magnitude_bins is " + std::to_string(bins) +
                "; it must be 2 to " + std::to_string(kMostBins));
}

/// One augmentation of a policy: its kind, its probability, and its magnitude as an index from 0 to
/// 9.
struct PolicyStep {
  Augmentation kind;
  double probability;
  std::int64_t magnitude;
};

constexpr std::uint32_t kPairs = 25;

// A namespace, so that the names of augmentations are not visible elsewhere.
namespace policies {

using enum Augmentation;

constexpr PolicyStep kPolicies[3][kPairs][2] = {
    // imagenet
    {
        {{posterize, 0.4, 8}, {rotate, 0.6, 9}},  {{solarize, 0.6, 5}, {auto_contrast, 0.6, 0}},
        {{equalize, 0.8, 0}, {equalize, 0.6, 0}}, {{posterize, 0.6, 7}, {posterize, 0.6, 6}},
        {{equalize, 0.4, 0}, {solarize, 0.2, 4}}, {{equalize, 0.4, 0}, {rotate, 0.8, 8}},
        {{solarize, 0.6, 3}, {equalize, 0.6, 0}}, {{posterize, 0.8, 5}, {equalize, 1.0, 0}},
        {{rotate, 0.2, 3}, {solarize, 0.6, 8}},   {{equalize, 0.6, 0}, {posterize, 0.4, 6}},
        {{rotate, 0.8, 8}, {color, 0.4, 0}},      {{rotate, 0.4, 9}, {equalize, 0.6, 0}},
        {{equalize, 0.0, 0}, {equalize, 0.8, 0}}, {{invert, 0.6, 0}, {equalize, 1.0, 0}},
        {{color, 0.6, 4}, {contrast, 1.0, 8}},    {{rotate, 0.8, 8}, {color, 1.0, 2}},
        {{color, 0.8, 8}, {solarize, 0.8, 7}},    {{sharpness, 0.4, 7}, {invert, 0.6, 0}},
        {{shear_x, 0.6, 5}, {equalize, 1.0, 0}},  {{color, 0.4, 0}, {equalize, 0.6, 0}},
        {{equalize, 0.4, 0}, {solarize, 0.2, 4}}, {{solarize, 0.6, 5}, {auto_contrast, 0.6, 0}},
        {{invert, 0.6, 0}, {equalize, 1.0, 0}},   {{color, 0.6, 4}, {contrast, 1.0, 8}},
        {{equalize, 0.8, 0}, {equalize, 0.6, 0}},
    },
    // cifar10
    {
        {{invert, 0.1, 0}, {contrast, 0.2, 6}},
        {{rotate, 0.7, 2}, {translate_x, 0.3, 9}},
        {{sharpness, 0.8, 1}, {sharpness, 0.9, 3}},
        {{shear_y, 0.5, 8}, {translate_y, 0.7, 9}},
        {{auto_contrast, 0.5, 0}, {equalize, 0.9, 0}},
        {{shear_y, 0.2, 7}, {posterize, 0.3, 7}},
        {{color, 0.4, 3}, {brightness, 0.6, 7}},
        {{sharpness, 0.3, 9}, {brightness, 0.7, 9}},
        {{equalize, 0.6, 0}, {equalize, 0.5, 0}},
        {{contrast, 0.6, 7}, {sharpness, 0.6, 5}},
        {{color, 0.7, 7}, {translate_x, 0.5, 8}},
        {{equalize, 0.3, 0}, {auto_contrast, 0.4, 0}},
        {{translate_y, 0.4, 3}, {sharpness, 0.2, 6}},
        {{brightness, 0.9, 6}, {color, 0.2, 8}},
        {{solarize, 0.5, 2}, {invert, 0.0, 0}},
        {{equalize, 0.2, 0}, {auto_contrast, 0.6, 0}},
        {{equalize, 0.2, 0}, {equalize, 0.6, 0}},
        {{color, 0.9, 9}, {equalize, 0.6, 0}},
        {{auto_contrast, 0.8, 0}, {solarize, 0.2, 8}},
        {{brightness, 0.1, 3}, {color, 0.7, 0}},
        {{solarize, 0.4, 5}, {auto_contrast, 0.9, 0}},
        {{translate_y, 0.9, 9}, {translate_y, 0.7, 9}},
        {{auto_contrast, 0.9, 0}, {solarize, 0.8, 3}},
        {{equalize, 0.8, 0}, {invert, 0.1, 0}},
        {{translate_y, 0.7, 9}, {auto_contrast, 0.9, 0}},
    },
    // svhn
    {
        {{shear_x, 0.9, 4}, {invert, 0.2, 0}},       {{shear_y, 0.9, 8}, {invert, 0.7, 0}},
        {{equalize, 0.6, 0}, {solarize, 0.6, 6}},    {{invert, 0.9, 0}, {equalize, 0.6, 0}},
        {{equalize, 0.6, 0}, {rotate, 0.9, 3}},      {{shear_x, 0.9, 4}, {auto_contrast, 0.8, 0}},
        {{shear_y, 0.9, 8}, {invert, 0.4, 0}},       {{shear_y, 0.9, 5}, {solarize, 0.2, 6}},
        {{invert, 0.9, 0}, {auto_contrast, 0.8, 0}}, {{equalize, 0.6, 0}, {rotate, 0.9, 3}},
        {{shear_x, 0.9, 4}, {solarize, 0.3, 3}},     {{shear_y, 0.8, 8}, {invert, 0.7, 0}},
        {{equalize, 0.9, 0}, {translate_y, 0.6, 6}}, {{invert, 0.9, 0}, {equalize, 0.6, 0}},
        {{contrast, 0.3, 3}, {rotate, 0.8, 4}},      {{invert, 0.8, 0}, {translate_y, 0.0, 2}},
        {{shear_y, 0.7, 6}, {solarize, 0.4, 8}},     {{invert, 0.6, 0}, {rotate, 0.8, 4}},
        {{shear_y, 0.3, 7}, {translate_x, 0.9, 3}},  {{shear_x, 0.1, 6}, {invert, 0.6, 0}},
        {{solarize, 0.7, 2}, {translate_y, 0.6, 7}}, {{shear_y, 0.8, 4}, {invert, 0.8, 0}},
        {{shear_x, 0.7, 9}, {translate_y, 0.8, 3}},  {{shear_y, 0.8, 5}, {auto_contrast, 0.7, 0}},
        {{shear_x, 0.7, 2}, {invert, 0.1, 0}},
    },
};

}  // namespace policies
}  // namespace

void RandAugment::validate() const {
  require_all(
      [&] {
        if (num_ops >= 0 && num_ops <= DrawnAugmentations::kMost) return;
        throw Refused("rand_augment: num_ops is " + std::to_string(num_ops) + "; it must be 0 to " +
                      std::to_string(DrawnAugmentations::kMost));
      },
      [&] { require_bins(kName, num_magnitude_bins); },
      [&] {
        if (magnitude >= 0 && magnitude < num_magnitude_bins) return;
        throw Refused("rand_augment: the magnitude is " + std::to_string(magnitude) +
                      "; it must be 0 or more, and less than num_magnitude_bins");
      },
      [&] { require_two_by_two(kName, interpolation); },
      [&] { require_number(kName, "fill", fill); });
}

FieldSpec RandAugment::output(const FieldSpec& in) const { return augmented(kName, in, fill); }

RandAugment::Drawn RandAugment::draw(const RandomKey& key, const Shape& shape) const {
  Drawn drawn = begin_draw(kName, shape);
  RandomStream stream(key);
  for (std::int64_t i = 0; i < num_ops; ++i) {
    const auto kind = static_cast<Augmentation>(stream.below(kKinds));
    const Magnitudes most = usual_magnitudes(shape);
    add(drawn, stream, true, kind, magnitude_at(kind, most, num_magnitude_bins, magnitude), shape);
  }
  return drawn;
}

void RandAugment::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                        Scratch& scratch) const {
  apply_augmentations(kName, drawn, interpolation, fill, in, out, scratch);
}

void TrivialAugmentWide::validate() const {
  require_all([&] { require_bins(kName, num_magnitude_bins); },
              [&] { require_two_by_two(kName, interpolation); },
              [&] { require_number(kName, "fill", fill); });
}

FieldSpec TrivialAugmentWide::output(const FieldSpec& in) const {
  return augmented(kName, in, fill);
}

TrivialAugmentWide::Drawn TrivialAugmentWide::draw(const RandomKey& key, const Shape& shape) const {
  Drawn drawn = begin_draw(kName, shape);
  RandomStream stream(key);
  const auto kind = static_cast<Augmentation>(stream.below(kKinds));
  const std::uint32_t i = stream.below(static_cast<std::uint32_t>(num_magnitude_bins));
  add(drawn, stream, true, kind, magnitude_at(kind, kWide, num_magnitude_bins, i), shape);
  return drawn;
}

void TrivialAugmentWide::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                               Scratch& scratch) const {
  apply_augmentations(kName, drawn, interpolation, fill, in, out, scratch);
}

void AutoAugment::validate() const {
  require_all([&] { require_two_by_two(kName, interpolation); },
              [&] { require_number(kName, "fill", fill); });
}

FieldSpec AutoAugment::output(const FieldSpec& in) const { return augmented(kName, in, fill); }

AutoAugment::Drawn AutoAugment::draw(const RandomKey& key, const Shape& shape) const {
  constexpr std::int64_t kBins = 10;
  Drawn drawn = begin_draw(kName, shape);
  RandomStream stream(key);
  const auto& pairs = policies::kPolicies[static_cast<std::size_t>(policy)];
  for (const PolicyStep& step : pairs[stream.below(kPairs)]) {
    const bool applies = stream.uniform() < step.probability;
    const Magnitudes most = usual_magnitudes(shape);
    add(drawn, stream, applies, step.kind, magnitude_at(step.kind, most, kBins, step.magnitude),
        shape);
  }
  return drawn;
}

void AutoAugment::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                        Scratch& scratch) const {
  apply_augmentations(kName, drawn, interpolation, fill, in, out, scratch);
}

}  // namespace slipstream
