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
  std::int64_t shorter = std::min(image.height, image.width);
  std::int64_t longer = std::max(image.height, image.width);
  if (shorter_side != 0) {
    longer = shorter_side * longer / shorter;
    shorter = shorter_side;
  }
  if (max_size != 0 && (shorter_side == 0 || longer > max_size)) {
    shorter = max_size * shorter / longer;
    longer = max_size;
  }
  return image.height <= image.width ? Size{shorter, longer} : Size{longer, shorter};
}

void Resize::validate() const {
  if (!size.keeps_ratio()) return require_sides(kName, {size.height, size.width});
  const auto refuse_unless = [](bool is_valid, const char* what, std::int64_t side,
                                const std::string& allowed) {
    if (is_valid) return;
    throw Refused("resize: " + std::string(what) + " is " + std::to_string(side) + "; " + allowed);
  };
  const std::string most = std::to_string(kMaxSide);
  const std::int64_t shorter = size.shorter_side;
  const bool has_both = shorter != 0 && size.max_size != 0;
  refuse_unless(shorter >= 0 && shorter <= kMaxSide, "the size", shorter,
                "the shorter side must be 1 to " + most);
  refuse_unless(size.max_size >= 0 && size.max_size <= kMaxSide, "max_size", size.max_size,
                "it must be 1 to " + most);
  refuse_unless(size.height == 0 && size.width == 0, "max_size", size.max_size,
                "it is for a size of one number; leave it out for [height, width]");
  refuse_unless(!has_both || size.max_size > shorter, "max_size", size.max_size,
                "it must be above the size, " + std::to_string(shorter));
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
    const bool is_too_small = to.height < 1 || to.width < 1;
    if (is_too_small || to.height > kMaxSide || to.width > kMaxSide ||
        to.height > kDefaultPixelLimit / to.width)
      throw UnfitSample("resize: the image is " + to_string(shape) + "; with a " +
                        (is_too_small ? "max_size of " + std::to_string(size.max_size)
                                      : "shorter side of " + std::to_string(size.shorter_side)) +
                        " it becomes " + std::to_string(to.height) + " x " +
                        std::to_string(to.width) + " pixels, which is too " +
                        (is_too_small ? "small" : "large") + ": give [height, width]");
  }
  return {{0, 0, shape[0], shape[1]}, shape[0], shape[1]};
}

void Resize::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                   Scratch& scratch) const {
  if (in.shape[0] < 1 || in.shape[1] < 1) throw UnfitSample("resize: the field has no pixels");
  // Unless it was reduced, a field may have another size than the one that draw() saw, and the
  // whole field is resized.
  const bool is_reduced = drawn.reduction > 1;
  resample(kind, {interpolation, antialias}, in, is_reduced ? drawn : draw({}, in.shape), out,
           scratch);
}

}  // namespace slipstream
