#include "slipstream/transforms/resize.h"

#include <algorithm>
#include <string>

#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "transforms/geometry.h"
#include "transforms/resampling.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMaxSide = 65'536;

}  // namespace

Size ResizedSize::of(const Size& image) const {
  if (!keeps_ratio()) return {height, width};
  const std::int64_t shorter = std::min(image.height, image.width);
  const std::int64_t longer = shorter_side * std::max(image.height, image.width) / shorter;
  return image.height <= image.width ? Size{shorter_side, longer} : Size{longer, shorter_side};
}

void Resize::validate() const {
  if (!size.keeps_ratio()) return require_sides(kName, {size.height, size.width});
  if (size.shorter_side >= 1 && size.shorter_side <= kMaxSide) return;
  throw Refused("resize: the size is " + std::to_string(size.shorter_side) +
                "; the shorter side must be 1 to " + std::to_string(kMaxSide));
}

FieldSpec Resize::output(const FieldSpec& in) const {
  if (!size.keeps_ratio()) return resampled(kName, in, size.height, size.width);
  const bool is_fixed = in.shape.rank >= 2 && in.shape[0] >= 0 && in.shape[1] >= 0;
  if (!is_fixed) return resampled(kName, in, -1, -1);
  if (in.shape[0] == 0 || in.shape[1] == 0) return resampled(kName, in, 0, 0);
  const Size to = size.of({in.shape[0], in.shape[1]});
  return resampled(kName, in, to.height, to.width);
}

Resize::Drawn Resize::draw(const RandomKey&, const Shape& shape) const {
  if (size.keeps_ratio()) {
    if (shape[0] < 1 || shape[1] < 1) throw UnfitSample("resize: the image has no pixels");
    const Size to = size.of({shape[0], shape[1]});
    if (to.height > kMaxSide || to.width > kMaxSide || to.height > kDefaultPixelLimit / to.width)
      throw UnfitSample("resize: the image is " + to_string(shape) + "; with a shorter side of " +
                        std::to_string(size.shorter_side) + " it becomes " +
                        std::to_string(to.height) + " x " + std::to_string(to.width) +
                        " pixels, which is too large: give [height, width]");
  }
  return {{0, 0, shape[0], shape[1]}, shape[0], shape[1]};
}

void Resize::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                   Scratch& scratch) const {
  if (in.shape[0] < 1 || in.shape[1] < 1) throw UnfitSample("resize: the field has no pixels");
  // Unless it was reduced, a field may have another size than the one that draw() saw, and the
  // whole field is resized.
  const bool is_reduced = drawn.reduction > 1;
  resample(kind, antialias, in, is_reduced ? drawn : draw({}, in.shape), out, scratch);
}

}  // namespace slipstream
