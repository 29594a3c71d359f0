#include <algorithm>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/masking.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"
#include "transforms/mask_math.h"
#include "transforms/random_region.h"

namespace slipstream {
namespace {

RegionBounds region_bounds(const RandomErasing& op) {
  return {op.scale, op.ratio, Ratio::height_to_width};
}

template <typename T>
void fill(const DrawnErasing& drawn, const MutableArray& out, T value) {
  const auto channels = out.shape[2];
  T* row = out.as<T>() + (drawn.top * out.shape[1] + drawn.left) * channels;
  for (std::int32_t y = 0; y < drawn.height; ++y, row += out.shape[1] * channels) {
    std::fill_n(row, drawn.width * channels, value);
  }
}

}  // namespace

void RandomErasing::validate() const {
  require_all([&] { require_probability(kName, p); },
              [&] { require_bounds(kName, region_bounds(*this)); },
              [&] { require_number(kName, "the value", value); });
}

FieldSpec RandomErasing::output(const FieldSpec& in) const {
  require_channels(kName, in);
  const bool is_level = value >= 0 && value <= 255 && value == static_cast<int>(value);
  if (in.dtype == DType::float32 || is_level) return in;
  throw Refused("random_erasing: the value is " + number_text(value) + ", but image '" + in.name +
                "' is uint8; it must be a whole number, 0 to 255");
}

RandomErasing::Drawn RandomErasing::draw(const RandomKey& key, const Shape& shape) const {
  Drawn drawn{};
  drawn.image_height = static_cast<std::int32_t>(shape[0]);
  drawn.image_width = static_cast<std::int32_t>(shape[1]);
  RandomStream stream(key);
  if (!(stream.uniform() < p)) return drawn;
  const auto region = draw_region(region_bounds(*this), stream, shape);
  if (!region) return drawn;
  drawn.top = static_cast<std::int32_t>(region->top);
  drawn.left = static_cast<std::int32_t>(region->left);
  drawn.height = static_cast<std::int32_t>(region->height);
  drawn.width = static_cast<std::int32_t>(region->width);
  return drawn;
}

void RandomErasing::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                          Scratch&) const {
  require_drawn_for(kName, {{}, drawn.image_height, drawn.image_width}, in);
  copy_all(in, out);
  // output() has checked that the value is an integer from 0 to 255.
  if (in.dtype == DType::uint8) return fill(drawn, out, static_cast<std::uint8_t>(value));
  fill(drawn, out, filling(value));
}

}  // namespace slipstream
