#include "slipstream/codecs/image.h"

#include <array>
#include <string>

#include "codecs/jpeg.h"
#include "codecs/png.h"
#include "codecs/pnm.h"
#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::array<unsigned, 3> kJpegStart = {0xff, 0xd8, 0xff};
constexpr std::array<unsigned, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

template <std::size_t N>
bool starts_with(std::span<const std::byte> file, const std::array<unsigned, N>& start) {
  if (file.size() < N) return false;
  for (std::size_t i = 0; i < N; ++i) {
    if (u8_at(file, i) != start[i]) return false;
  }
  return true;
}

[[noreturn]] void refuse_unknown(std::span<const std::byte> file) {
  if (file.empty()) throw Error("the file is empty (0 bytes); replace or remove it");
  throw Error("not a JPEG, PNG or PPM file according to its first bytes (file size in bytes: " +
              std::to_string(file.size()) + "); convert, replace or remove the file");
}

Shape shape_within(std::span<const std::byte> file, const DecodeOptions& options) {
  const Shape shape = image_shape(file);
  const std::int64_t height = shape[0];
  const std::int64_t width = shape[1];
  if (height == 0 || width == 0) {
    throw Error("the image has no pixels (" + std::to_string(width) + " x " +
                std::to_string(height) + "); replace or remove the file");
  }
  // Division, because height * width of a damaged header could overflow.
  if (height > options.pixel_limit / width) {
    throw Error("the header declares an image of " + std::to_string(width) + " x " +
                std::to_string(height) + " pixels, over the limit of " +
                std::to_string(options.pixel_limit) +
                "; shrink or remove it (a program may raise DecodeOptions::pixel_limit)");
  }
  return shape;
}

void require_inside(const Region& region, const Shape& shape) {
  const auto fits = [](std::int64_t from, std::int64_t length, std::int64_t side) {
    // Written without from + length, which could overflow.
    return from >= 0 && length >= 1 && length <= side && from <= side - length;
  };
  if (fits(region.top, region.height, shape[0]) && fits(region.left, region.width, shape[1]))
    return;
  throw Error("the part to decode, " + std::to_string(region.height) + " x " +
              std::to_string(region.width) + " pixels at (" + std::to_string(region.top) + ", " +
              std::to_string(region.left) + "), is outside the image of " +
              std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
              "; choose a region inside the image");
}

void require_pixels(const ConstArray& pixels) {
  const Shape& shape = pixels.shape;
  const bool is_image = shape.rank == 2 || (shape.rank == 3 && shape[2] == 3);
  if (pixels.dtype == DType::uint8 && is_image && shape[0] > 0 && shape[1] > 0) return;
  throw Error("cannot encode " + std::string(to_string(pixels.dtype)) + " of " + to_string(shape) +
              ": pixels are uint8, height x width or height x width x 3");
}

}  // namespace

Rgb color_named(const std::string& text) {
  if (text == "black") return {0, 0, 0};
  if (text == "white") return {255, 255, 255};
  const bool is_hex = text.size() == 7 && text[0] == '#' &&
                      text.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string::npos;
  if (!is_hex) throw Refused("'" + text + "' is not a color: give black, white or #rrggbb");
  const auto level = [&](std::size_t at) {
    return static_cast<std::uint8_t>(std::stoul(text.substr(at, 2), nullptr, 16));
  };
  return {level(1), level(3), level(5)};
}

ImageFormat image_format(std::span<const std::byte> file) {
  if (starts_with(file, kJpegStart)) return ImageFormat::jpeg;
  if (starts_with(file, kPngStart)) return ImageFormat::png;
  if (pnm::starts(file)) return ImageFormat::pnm;
  return ImageFormat::unknown;
}

Shape image_shape(std::span<const std::byte> file) {
  switch (image_format(file)) {
    case ImageFormat::jpeg:
      return jpeg::shape(file);
    case ImageFormat::png:
      return png::shape(file);
    case ImageFormat::pnm:
      return pnm::shape(file);
    case ImageFormat::unknown:
      break;
  }
  refuse_unknown(file);
}

void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out) {
  const Shape shape = shape_within(file, options);
  const MutableArray pixels = out.reset(DType::uint8, {shape[0], shape[1], 3});
  const ImageFormat format = image_format(file);
  if (format == ImageFormat::jpeg) {
    jpeg::decode(file, options, pixels);
  } else if (format == ImageFormat::pnm) {
    pnm::decode(file, pixels);
  } else {
    png::decode_rgb(file, options, pixels);
  }
}

std::optional<Window> decode_rgb_window(std::span<const std::byte> file,
                                        const DecodeOptions& options, const Window& wanted,
                                        HostArray& out) {
  const Shape shape = shape_within(file, options);
  require_inside(wanted.region, shape);
  // Only the complete decoding finds every kind of damage.
  if (image_format(file) != ImageFormat::jpeg || options.strict) return std::nullopt;
  return jpeg::decode_window(file, wanted, options.warning, out);
}

void decode_mask(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out) {
  const Shape shape = shape_within(file, options);
  if (image_format(file) == ImageFormat::pnm) {
    throw Error("a mask must be PNG; save it as 8-bit gray PNG");
  }
  if (image_format(file) == ImageFormat::jpeg) {
    throw Error(
        "a mask must be PNG, because JPEG compression changes class indices; save the mask as "
        "8-bit gray PNG");
  }
  png::decode_mask(file, options, out.reset(DType::uint8, {shape[0], shape[1]}));
}

std::vector<std::byte> encode_jpeg(const ConstArray& pixels, int quality) {
  require_pixels(pixels);
  if (quality < 1 || quality > 100) {
    throw Error("JPEG quality is " + std::to_string(quality) + "; it must be 1 to 100");
  }
  return jpeg::encode(pixels, quality);
}

std::vector<std::byte> encode_png(const ConstArray& pixels) {
  require_pixels(pixels);
  return png::encode(pixels);
}

}  // namespace slipstream
