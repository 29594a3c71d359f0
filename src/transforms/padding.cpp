#include "transforms/padding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"
#include "transforms/interpolation.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMostPadding = 65'536;

template <typename T>
bool fits_in(double value) {
  // 2^63 is the first double above all integers of 64 bits.
  return value == std::floor(value) &&
         value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
         value < std::ldexp(1.0, std::numeric_limits<T>::digits);
}

bool fits_dtype(DType dtype, double value) {
  switch (dtype) {
    case DType::uint8:
      return fits_in<std::uint8_t>(value);
    case DType::int32:
      return fits_in<std::int32_t>(value);
    case DType::int64:
      return fits_in<std::int64_t>(value);
    case DType::float32:
      return true;
  }
  return false;
}

template <typename T>
void store(T value, std::byte*& to) {
  std::memcpy(to, &value, sizeof(value));
  to += sizeof(value);
}

/// The padding of one row.
struct RowPadding {
  const std::byte* fill;
  std::size_t bytes;  ///< of a pixel
  PaddingMode mode;

  /// Writes pixels `first` to `last` - 1 of an axis, all of which are outside of the image.
  std::byte* write(const std::byte* row, std::int64_t first, std::int64_t last, std::int64_t size,
                   std::byte* to) const {
    for (std::int64_t x = first; x < last; ++x, to += bytes) {
      const std::int32_t from =
          padded_index(mode, static_cast<std::int32_t>(x), static_cast<std::int32_t>(size));
      std::memcpy(to, from < 0 ? fill : row + static_cast<std::size_t>(from) * bytes, bytes);
    }
    return to;
  }
};

}  // namespace

void require_padding(std::string_view op, const Padding& padding) {
  for (const std::int64_t side : {padding.left, padding.top, padding.right, padding.bottom}) {
    if (side >= 0 && side <= kMostPadding) continue;
    throw Refused(std::string(op) + ": the padding is " + std::to_string(side) +
                  "; it must be 0 to " + std::to_string(kMostPadding));
  }
}

void require_fill(std::string_view op, const std::vector<double>& fill) {
  if (fill.empty() || fill.size() > 4)
    throw Refused(std::string(op) + ": fill has " + std::to_string(fill.size()) +
                  " numbers; it must have one, or one per channel");
  for (const double value : fill) require_number(op, "fill", value);
}

void require_fill_for(std::string_view op, const std::vector<double>& fill, const FieldSpec& in) {
  const bool is_mask = in.kind == FieldKind::mask;
  const std::string name = (is_mask ? "mask '" : "image '") + in.name + "'";
  const std::int64_t channels = is_mask ? 1 : in.shape[2];
  const auto count = static_cast<std::int64_t>(fill.size());
  if (count != 1 && channels >= 0 && count != channels)
    throw Refused(std::string(op) + ": fill has " + std::to_string(count) + " numbers, but " +
                  name + " has " + (is_mask ? "one value per pixel" : to_string(in.shape)) +
                  "; give one number" + (is_mask ? "" : ", or one per channel"));
  for (const double value : fill) {
    if (fits_dtype(in.dtype, value)) continue;
    throw Refused(std::string(op) + (is_mask ? ": the fill of mask '" : ": the fill of image '") +
                  in.name + "', " + std::string(to_string(in.dtype)) + ", is " +
                  number_text(value) + "; it must be a whole number" +
                  (in.dtype == DType::uint8 ? ", 0 to 255" : ""));
  }
}

void require_paddable(std::string_view op, const Padding& padding, PaddingMode mode,
                      const Shape& shape) {
  const auto image = [&] {
    return std::string(op) + ": the image is " + std::to_string(shape[0]) + " x " +
           std::to_string(shape[1]) + " pixels";
  };
  if (shape[0] < 1 || shape[1] < 1)
    throw UnfitSample(std::string(op) + ": the image has no pixels");
  const std::int64_t height = shape[0] + padding.top + padding.bottom;
  const std::int64_t width = shape[1] + padding.left + padding.right;
  if (height > kDefaultPixelLimit / width)
    throw UnfitSample(image() + ", and with its padding it has too many: " +
                      std::to_string(height) + " x " + std::to_string(width));
  // The outermost pixel is not repeated by `reflect`, so that one pixel less can be added.
  const std::int64_t kept = mode == PaddingMode::reflect ? 1 : 0;
  const bool mirrors = mode == PaddingMode::reflect || mode == PaddingMode::symmetric;
  const bool fits = std::max(padding.top, padding.bottom) <= shape[0] - kept &&
                    std::max(padding.left, padding.right) <= shape[1] - kept;
  if (!mirrors || fits) return;
  throw UnfitSample(image() + ", too small to be mirrored on " + std::to_string(padding.left) +
                    ", " + std::to_string(padding.top) + ", " + std::to_string(padding.right) +
                    ", " + std::to_string(padding.bottom) +
                    " pixels (left, top, right, bottom); put resize before it, or use another "
                    "padding_mode");
}

void store_fill(const std::vector<double>& fill, DType dtype, std::int64_t channels,
                std::byte* pixel) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const double value = fill[fill.size() == 1 ? 0 : static_cast<std::size_t>(c)];
    switch (dtype) {
      case DType::uint8:
        store(static_cast<std::uint8_t>(value), pixel);
        break;
      case DType::int32:
        store(static_cast<std::int32_t>(value), pixel);
        break;
      case DType::int64:
        store(static_cast<std::int64_t>(value), pixel);
        break;
      case DType::float32:
        store(filling(value), pixel);
        break;
    }
  }
}

void copy_padded(const ConstArray& in, const Region& region, PaddingMode mode,
                 const std::vector<double>& fill, const MutableArray& out, Scratch& scratch) {
  const auto is_zero = [](double value) { return value == 0; };
  const std::int64_t height = in.shape[0];
  const std::int64_t width = in.shape[1];
  const bool is_inside = region.top >= 0 && region.left >= 0 &&
                         region.top + region.height <= height &&
                         region.left + region.width <= width;
  const bool is_black =
      mode == PaddingMode::constant && std::all_of(fill.begin(), fill.end(), is_zero);
  if (is_inside || is_black) return copy_region(in, region, out);
  const std::size_t bytes = pixel_bytes(in);
  std::byte* const pixel = scratch.reset(DType::uint8, {static_cast<std::int64_t>(bytes)}).data;
  store_fill(fill, in.dtype, in.shape.rank == 3 ? in.shape[2] : 1, pixel);
  const RowPadding padding = {pixel, bytes, mode};
  const std::int64_t end = region.left + region.width;
  const std::int64_t first = std::clamp<std::int64_t>(0, region.left, end);
  const std::int64_t last = std::clamp(width, first, end);
  std::byte* to = out.data;
  for (std::int64_t y = 0; y < region.height; ++y) {
    const std::int32_t from = padded_index(mode, static_cast<std::int32_t>(region.top + y),
                                           static_cast<std::int32_t>(height));
    if (from < 0) {
      for (std::int64_t x = 0; x < region.width; ++x, to += bytes) std::memcpy(to, pixel, bytes);
      continue;
    }
    const std::byte* row = in.data + static_cast<std::size_t>(from * width) * bytes;
    to = padding.write(row, region.left, first, width, to);
    const std::size_t inside = static_cast<std::size_t>(last - first) * bytes;
    if (inside > 0) std::memcpy(to, row + static_cast<std::size_t>(first) * bytes, inside);
    to = padding.write(row, last, end, width, to + inside);
  }
}

void Pad::validate() const {
  require_all([&] { require_padding(kName, padding); }, [&] { require_fill(kName, fill); });
}

FieldSpec Pad::output(const FieldSpec& in) const {
  const std::int64_t height = in.shape[0] < 0 ? -1 : in.shape[0] + padding.top + padding.bottom;
  const std::int64_t width = in.shape[1] < 0 ? -1 : in.shape[1] + padding.left + padding.right;
  FieldSpec out = resided(kName, in, height, width);
  require_fill_for(kName, fill, in);
  return out;
}

Pad::Drawn Pad::draw(const RandomKey&, const Shape& shape) const {
  require_paddable(kName, padding, padding_mode, shape);
  return {{-padding.top, -padding.left, shape[0] + padding.top + padding.bottom,
           shape[1] + padding.left + padding.right},
          shape[0],
          shape[1]};
}

void Pad::apply(const Drawn&, FieldKind, ConstArray in, MutableArray out, Scratch& scratch) const {
  // Fields may differ in size: each gets the same padding.
  copy_padded(in, draw({}, in.shape).region, padding_mode, fill, out, scratch);
}

}  // namespace slipstream
