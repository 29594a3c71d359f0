#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "ops/elementary.h"
#include "ops/geometry.h"
#include "ops/resampling.h"
#include "slipstream/error.h"
#include "slipstream/transforms.h"
#include "slipstream/unfit_sample.h"

namespace slipstream {
namespace {

constexpr int kTries = 10;
constexpr double kMaxRatio = 1000;

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

std::int64_t place(RandomStream& stream, std::int64_t side, std::int64_t part) {
  return stream.below(static_cast<std::uint32_t>(side - part + 1));
}

std::optional<Region> try_once(const RandomResizedCrop& op, RandomStream& stream,
                               const Shape& shape) {
  const double uniform_scale = stream.uniform();
  const double uniform_ratio = stream.uniform();
  const double whole = static_cast<double>(shape[0]) * static_cast<double>(shape[1]);
  const double area = whole * (op.scale_min + uniform_scale * (op.scale_max - op.scale_min));
  const double low = exact_log(op.ratio_min);
  const double ratio = exact_exp(low + uniform_ratio * (exact_log(op.ratio_max) - low));
  const std::int64_t width = rounded(std::sqrt(area * ratio));
  const std::int64_t height = rounded(std::sqrt(area / ratio));
  if (width < 1 || width > shape[1] || height < 1 || height > shape[0]) return std::nullopt;
  const std::int64_t top = place(stream, shape[0], height);
  const std::int64_t left = place(stream, shape[1], width);
  return Region{top, left, height, width};
}

Region centred(const RandomResizedCrop& op, const Shape& shape) {
  const auto height = static_cast<double>(shape[0]);
  const auto width = static_cast<double>(shape[1]);
  Region region = {0, 0, shape[0], shape[1]};
  if (width / height < op.ratio_min) {
    region.height = std::clamp<std::int64_t>(rounded(width / op.ratio_min), 1, shape[0]);
  } else if (width / height > op.ratio_max) {
    region.width = std::clamp<std::int64_t>(rounded(height * op.ratio_max), 1, shape[1]);
  }
  region.top = (shape[0] - region.height) / 2;
  region.left = (shape[1] - region.width) / 2;
  return region;
}

std::string text_of(double low, double high) {
  return std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

void RandomResizedCrop::validate() const {
  require_sides(kName, height, width);
  if (!(scale_min > 0 && scale_min <= scale_max && scale_max <= 1)) {
    throw Refused("random_resized_crop: the scale is " + text_of(scale_min, scale_max) +
                  "; it must be above 0 and at most 1, scale_min at most scale_max");
  }
  if (!(ratio_min >= 1 / kMaxRatio && ratio_min <= ratio_max && ratio_max <= kMaxRatio)) {
    throw Refused("random_resized_crop: the ratio is " + text_of(ratio_min, ratio_max) +
                  "; it must be 0.001 to 1000, ratio_min at most ratio_max");
  }
}

FieldSpec RandomResizedCrop::output(const FieldSpec& in) const {
  return resampled(kName, in, height, width, antialias);
}

RandomResizedCrop::Drawn RandomResizedCrop::draw(const RandomKey& key, const Shape& shape) const {
  if (shape[0] < 1 || shape[1] < 1)
    throw UnfitSample("random_resized_crop: the image has no pixels");
  RandomStream stream(key);
  for (int i = 0; i < kTries; ++i) {
    if (const auto region = try_once(*this, stream, shape)) return {*region, shape[0], shape[1]};
  }
  return {centred(*this, shape), shape[0], shape[1]};
}

void RandomResizedCrop::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                              Scratch& scratch) const {
  require_drawn_for(kName, drawn, in);
  resample(kind, antialias, in, drawn, out, scratch);
}

}  // namespace slipstream
