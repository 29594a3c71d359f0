#include <algorithm>
#include <string>

#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"

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

std::int64_t below(RandomStream& stream, std::int64_t bound) {
  return stream.below(static_cast<std::uint32_t>(bound));
}

void crop(std::string_view op, const DrawnCrop& drawn, const ConstArray& in,
          const MutableArray& out) {
  require_drawn_for(op, drawn, in);
  copy_region(in, drawn.region, out);
}

}  // namespace

void CenterCrop::validate() const { require_sides(kName, size); }

FieldSpec CenterCrop::output(const FieldSpec& in) const {
  FieldSpec out = resided(kName, in, size.height, size.width);
  require_room(kName, in, size.height, size.width);
  return out;
}

CenterCrop::Drawn CenterCrop::draw(const RandomKey&, const Shape& shape) const {
  require_at_least(kName, shape, size.height, size.width);
  return {{half_to_even(shape[0] - size.height), half_to_even(shape[1] - size.width), size.height,
           size.width},
          shape[0],
          shape[1]};
}

void CenterCrop::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                       Scratch&) const {
  crop(kName, drawn, in, out);
}

void RandomCrop::validate() const {
  const auto require_padding = [&] {
    if (padding >= 0 && (padding == 0 || padding < std::min(size.height, size.width))) return;
    throw Refused("random_crop: the padding is " + std::to_string(padding) +
                  "; it must be 0 or more, and less than height and width");
  };
  require_all([&] { require_sides(kName, size); }, require_padding);
}

FieldSpec RandomCrop::output(const FieldSpec& in) const {
  FieldSpec out = resided(kName, in, size.height, size.width);
  require_room(kName, in, size.height - 2 * padding, size.width - 2 * padding);
  return out;
}

RandomCrop::Drawn RandomCrop::draw(const RandomKey& key, const Shape& shape) const {
  const std::int64_t rows = size.height - 2 * padding;
  const std::int64_t columns = size.width - 2 * padding;
  // With large padding `rows` may be 0 or negative, but the image must have at least one pixel.
  require_at_least(kName, shape, std::max<std::int64_t>(rows, 1),
                   std::max<std::int64_t>(columns, 1));
  RandomStream stream(key);
  const std::int64_t top = below(stream, shape[0] - rows + 1) - padding;
  const std::int64_t left = below(stream, shape[1] - columns + 1) - padding;
  return {{top, left, size.height, size.width}, shape[0], shape[1]};
}

void RandomCrop::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                       Scratch&) const {
  crop(kName, drawn, in, out);
}

}  // namespace slipstream
