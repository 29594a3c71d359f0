#include <algorithm>

#include "slipstream/transforms/op.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"
#include "transforms/random_region.h"
#include "transforms/resampling.h"

namespace slipstream {
namespace {

RegionBounds region_bounds(const RandomResizedCrop& op) {
  return {op.scale, op.ratio, Ratio::width_to_height};
}

Region centered(const RandomResizedCrop& op, const Shape& shape) {
  const auto height = static_cast<double>(shape[0]);
  const auto width = static_cast<double>(shape[1]);
  Region region = {0, 0, shape[0], shape[1]};
  if (width / height < op.ratio[0]) {
    region.height = std::clamp<std::int64_t>(rounded_side(width / op.ratio[0]), 1, shape[0]);
  } else if (width / height > op.ratio[1]) {
    region.width = std::clamp<std::int64_t>(rounded_side(height * op.ratio[1]), 1, shape[1]);
  }
  region.top = (shape[0] - region.height) / 2;
  region.left = (shape[1] - region.width) / 2;
  return region;
}

}  // namespace

void RandomResizedCrop::validate() const {
  require_all([&] { require_sides(kName, size); },
              [&] { require_bounds(kName, region_bounds(*this)); });
}

FieldSpec RandomResizedCrop::output(const FieldSpec& in) const {
  return resampled(kName, in, size.height, size.width);
}

RandomResizedCrop::Drawn RandomResizedCrop::draw(const RandomKey& key, const Shape& shape) const {
  if (shape[0] < 1 || shape[1] < 1)
    throw UnfitSample("random_resized_crop: the image has no pixels");
  RandomStream stream(key);
  const auto region = draw_region(region_bounds(*this), stream, shape);
  return {region ? *region : centered(*this, shape), shape[0], shape[1]};
}

void RandomResizedCrop::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                              Scratch& scratch) const {
  require_drawn_for(kName, drawn, in);
  resample(kind, {interpolation, antialias}, in, drawn, out, scratch);
}

}  // namespace slipstream
