#include "transforms/geometry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMaxSide = 65'536;
constexpr std::int64_t kMaxChannels = 4;

std::string to_text(std::int64_t height, std::int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

std::string described(const FieldSpec& in) {
  return std::string(in.kind == FieldKind::mask ? "mask '" : "image '") + in.name + "' is ";
}

}  // namespace

Region DrawnCrop::inside() const {
  const std::int64_t top = std::clamp<std::int64_t>(region.top, 0, height - 1);
  const std::int64_t left = std::clamp<std::int64_t>(region.left, 0, width - 1);
  return {top, left, std::clamp(region.top + region.height, top + 1, height) - top,
          std::clamp(region.left + region.width, left + 1, width) - left};
}

std::int64_t DrawnCrop::reduction_to(const Size& size) const {
  return std::max<std::int64_t>(std::min(region.height / size.height, region.width / size.width),
                                1);
}

DrawnCrop DrawnCrop::within(const Window& window) const {
  const Region& part = window.region;
  return {{region.top - part.top, region.left - part.left, region.height, region.width},
          part.height,
          part.width,
          window.reduction};
}

AffineMap DrawnCrop::resized_to(const Size& size) const {
  AffineMap map;
  map.xx = static_cast<double>(size.width) / static_cast<double>(region.width);
  map.yy = static_cast<double>(size.height) / static_cast<double>(region.height);
  map.dx = -map.xx * static_cast<double>(region.left);
  map.dy = -map.yy * static_cast<double>(region.top);
  map.height = size.height;
  map.width = size.width;
  return map;
}

void require_sides(std::string_view op, const Size& size) {
  const auto sensible = [](std::int64_t side) { return side >= 1 && side <= kMaxSide; };
  if (sensible(size.height) && sensible(size.width)) return;
  throw Refused(std::string(op) + " to " + to_text(size.height, size.width) +
                ": height and width must be 1 to " + std::to_string(kMaxSide));
}

void require_probability(std::string_view op, double p) {
  if (p >= 0 && p <= 1) return;
  throw Refused(std::string(op) + ": p is " + number_text(p) + "; it must be 0 to 1");
}

void require_number(std::string_view op, const char* what, double value) {
  if (std::isfinite(static_cast<float>(value))) return;
  throw Refused(std::string(op) + ": " + what + " is " + number_text(value) +
                "; it must be a number");
}

void require_channels(std::string_view op, const FieldSpec& in) {
  const bool is_number = in.dtype == DType::uint8 || in.dtype == DType::float32;
  if (is_number && in.shape.rank == 3 && in.shape[2] >= 1 && in.shape[2] <= kMaxChannels) return;
  throw Refused(std::string(op) + ": " + described(in) + std::string(to_string(in.dtype)) + ", " +
                to_string(in.shape) +
                "; it must be uint8 or float32, height x width x 1 to 4 channels");
}

FieldSpec resided(std::string_view op, const FieldSpec& in, std::int64_t height,
                  std::int64_t width) {
  FieldSpec out = in;
  const std::size_t rank = in.kind == FieldKind::mask ? 2 : 3;
  if (in.shape.rank != rank) {
    throw Refused(std::string(op) + ": " + described(in) + to_string(in.shape) +
                  "; it must be height x width" + (rank == 3 ? " x channels" : ""));
  }
  if (height > kDefaultPixelLimit / std::max<std::int64_t>(width, 1))
    throw Refused(std::string(op) + ": it makes " + to_text(height, width) +
                  " pixels; the maximum is " + std::to_string(kDefaultPixelLimit) + " in all");
  out.shape.dims[0] = height;
  out.shape.dims[1] = width;
  return out;
}

FieldSpec resampled(std::string_view op, const FieldSpec& in, std::int64_t height,
                    std::int64_t width) {
  FieldSpec out = resided(op, in, height, width);
  if (in.kind == FieldKind::image) require_channels(op, in);
  return out;
}

void require_room(std::string_view op, const FieldSpec& in, std::int64_t height,
                  std::int64_t width) {
  const auto is_small = [](std::int64_t side, std::int64_t least) {
    return side >= 0 && side < least;
  };
  if (!is_small(in.shape[0], height) && !is_small(in.shape[1], width)) return;
  throw Refused(std::string(op) + ": " + described(in) + to_string(in.shape) +
                ", smaller than the crop of " + to_text(height, width) + "; put resize before it");
}

void require_drawn_for(std::string_view op, const DrawnCrop& drawn, const ConstArray& in) {
  const auto reduced = [&](std::int64_t side) {
    return (side + drawn.reduction - 1) / drawn.reduction;
  };
  if (in.shape[0] == reduced(drawn.height) && in.shape[1] == reduced(drawn.width)) return;
  throw UnfitSample(std::string(op) + ": a field is " + to_text(in.shape[0], in.shape[1]) +
                    " pixels, but the sample's first image is " +
                    to_text(drawn.height, drawn.width) + "; make them the same size");
}

bool is_applied(const RandomKey& key, double p) { return RandomStream(key).uniform() < p; }

std::size_t pixel_bytes(const ConstArray& array) {
  const std::int64_t channels = array.shape.rank == 3 ? array.shape[2] : 1;
  return size_bytes(array.dtype) * static_cast<std::size_t>(channels);
}

void copy_all(const ConstArray& in, const MutableArray& out) {
  if (in.bytes() > 0) std::memcpy(out.data, in.data, in.bytes());
}

void copy_region(const ConstArray& in, const Region& region, const MutableArray& out) {
  const bool is_apart = region.top >= in.shape[0] || region.left >= in.shape[1] ||
                        region.top + region.height <= 0 || region.left + region.width <= 0;
  if (is_apart) {
    std::memset(out.data, 0, out.bytes());
    return;
  }
  const Region part = DrawnCrop{region, in.shape[0], in.shape[1]}.inside();
  const auto pixel = static_cast<std::int64_t>(pixel_bytes(in));
  const auto bytes = [&](std::int64_t pixels) { return static_cast<std::size_t>(pixels * pixel); };
  const std::size_t row = bytes(out.shape[1]);
  const std::size_t left = bytes(part.left - region.left);
  const std::size_t width = bytes(part.width);
  const std::byte* from = in.data + (part.top * in.shape[1] + part.left) * pixel;
  std::byte* to = out.data + (part.top - region.top) * out.shape[1] * pixel;
  std::memset(out.data, 0, static_cast<std::size_t>(to - out.data));
  for (std::int64_t y = 0; y < part.height; ++y) {
    std::memset(to, 0, left);
    std::memcpy(to + left, from, width);
    std::memset(to + left + width, 0, row - left - width);
    from += bytes(in.shape[1]);
    to += row;
  }
  std::memset(to, 0, out.bytes() - static_cast<std::size_t>(to - out.data));
}

}  // namespace slipstream
