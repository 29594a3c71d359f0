#include <algorithm>
#include <string>

#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"
#include "transforms/padding.h"

namespace slipstream {
namespace {

void require_at_least(std::string_view op, const Shape& shape, std::int64_t height,
                      std::int64_t width) {
  if (shape[0] >= height && shape[1] >= width) return;
  throw UnfitSample(std::string(op) + ": the image is " + std::to_string(shape[0]) + " x " +
                    std::to_string(shape[1]) + " pixels, smaller than " + std::to_string(height) +
                    " x " + std::to_string(width) + "; put resize before it");
}

/// Returns half of `rest`, ties to even, as torchvision rounds: of 1 it returns 0, of 3 it
/// returns 2. REQUIRES: rest >= 0
std::int64_t half_to_even(std::int64_t rest) { return rest / 2 + (rest % 4 == 3 ? 1 : 0); }

/// Returns the first row of a crop in the center of `side` rows. It is negative if the crop is
/// larger.
std::int64_t centered_offset(std::int64_t side, std::int64_t part) {
  return side >= part ? half_to_even(side - part) : -((part - side) / 2);
}

std::int64_t below(RandomStream& stream, std::int64_t bound) {
  return stream.below(static_cast<std::uint32_t>(bound));
}

/// Returns `padding` and what pad_if_needed adds to it for an image of `shape`.
Padding padding_for(const RandomCrop& op, const Shape& shape) {
  Padding padding = op.padding;
  if (!op.pad_if_needed) return padding;
  const auto missing = [](std::int64_t part, std::int64_t side) {
    return std::max<std::int64_t>(part - side, 0);
  };
  const std::int64_t rows = missing(op.size.height, shape[0] + padding.top + padding.bottom);
  const std::int64_t columns = missing(op.size.width, shape[1] + padding.left + padding.right);
  padding.top += rows;
  padding.bottom += rows;
  padding.left += columns;
  padding.right += columns;
  return padding;
}

}  // namespace

void CenterCrop::validate() const { require_sides(kName, size); }

FieldSpec CenterCrop::output(const FieldSpec& in) const {
  return resided(kName, in, size.height, size.width);
}

CenterCrop::Drawn CenterCrop::draw(const RandomKey&, const Shape& shape) const {
  require_at_least(kName, shape, 1, 1);
  return {{centered_offset(shape[0], size.height), centered_offset(shape[1], size.width),
           size.height, size.width},
          shape[0],
          shape[1]};
}

void CenterCrop::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                       Scratch&) const {
  require_drawn_for(kName, drawn, in);
  copy_region(in, drawn.region, out);
}

void RandomCrop::validate() const {
  require_all([&] { require_sides(kName, size); }, [&] { require_padding(kName, padding); },
              [&] { require_fill(kName, fill); });
}

FieldSpec RandomCrop::output(const FieldSpec& in) const {
  FieldSpec out = resided(kName, in, size.height, size.width);
  if (!pad_if_needed)
    require_room(kName, in, size.height - padding.top - padding.bottom,
                 size.width - padding.left - padding.right);
  if (pads()) require_fill_for(kName, fill, in);
  return out;
}

RandomCrop::Drawn RandomCrop::draw(const RandomKey& key, const Shape& shape) const {
  const Padding added = padding_for(*this, shape);
  const std::int64_t rows = size.height - added.top - added.bottom;
  const std::int64_t columns = size.width - added.left - added.right;
  // With large padding `rows` may be 0 or negative, but the image must have at least one pixel.
  require_at_least(kName, shape, std::max<std::int64_t>(rows, 1),
                   std::max<std::int64_t>(columns, 1));
  if (pads()) require_paddable(kName, added, padding_mode, shape);
  RandomStream stream(key);
  const std::int64_t top = below(stream, shape[0] - rows + 1) - added.top;
  const std::int64_t left = below(stream, shape[1] - columns + 1) - added.left;
  return {{top, left, size.height, size.width}, shape[0], shape[1]};
}

void RandomCrop::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                       Scratch& scratch) const {
  require_drawn_for(kName, drawn, in);
  copy_padded(in, drawn.region, padding_mode, fill, out, scratch);
}

Region RandomCrop::region(const Drawn& drawn) const {
  const Region inside = drawn.inside();
  // Padding that repeats pixels may take them from any part of the image.
  if (padding_mode == PaddingMode::constant || inside == drawn.region) return inside;
  return {0, 0, drawn.height, drawn.width};
}

}  // namespace slipstream
