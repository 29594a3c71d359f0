#include "slipstream/codecs/image.h"

#include <algorithm>
#include <array>
#include <string>

#include "codecs/bmp.h"
#include "codecs/codec.h"
#include "codecs/formats.h"
#include "codecs/jpeg.h"
#include "codecs/png.h"
#include "codecs/pnm.h"
#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::array<unsigned, 3> kJpegStart = {0xff, 0xd8, 0xff};
constexpr std::array<unsigned, 8> kPngStart = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<unsigned, 6> kGif87Start = {'G', 'I', 'F', '8', '7', 'a'};
constexpr std::array<unsigned, 6> kGif89Start = {'G', 'I', 'F', '8', '9', 'a'};
constexpr std::array<unsigned, 4> kRiffStart = {'R', 'I', 'F', 'F'};
constexpr std::array<unsigned, 4> kWebpName = {'W', 'E', 'B', 'P'};
constexpr std::size_t kWebpNameAt = 8;
// Little-endian and big-endian, TIFF and BigTIFF.
constexpr std::array<std::array<unsigned, 4>, 4> kTiffStarts = {
    {{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 43, 0}, {'M', 'M', 0, 43}}};

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
  throw Error(
      "not a JPEG, PNG, PPM, BMP, GIF, TIFF or WebP file according to its first bytes (file "
      "size in bytes: " +
      std::to_string(file.size()) + "); convert, replace or remove the file");
}

bool is_tiff(std::span<const std::byte> file) {
  return std::any_of(kTiffStarts.begin(), kTiffStarts.end(),
                     [&](const auto& start) { return starts_with(file, start); });
}

bool is_webp(std::span<const std::byte> file) {
  return starts_with(file, kRiffStart) && file.size() > kWebpNameAt &&
         starts_with(file.subspan(kWebpNameAt), kWebpName);
}

const Codec& codec_for(std::span<const std::byte> file) {
  const ImageFormat format = image_format(file);
  if (format == ImageFormat::unknown) refuse_unknown(file);
  const Codec* const codec = find_codec(format);
  if (codec == nullptr) throw Error(missing_codec_message(format));
  return *codec;
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
  if (is_webp(file)) return ImageFormat::webp;
  if (is_tiff(file)) return ImageFormat::tiff;
  if (starts_with(file, kGif87Start) || starts_with(file, kGif89Start)) return ImageFormat::gif;
  if (bmp::starts(file)) return ImageFormat::bmp;
  return ImageFormat::unknown;
}

const Codec* find_codec(ImageFormat format) {
  static constexpr Codec kJpeg = {jpeg::shape, jpeg::decode};
  static constexpr Codec kPng = {png::shape, png::decode_rgb};
  static constexpr Codec kPnm = {pnm::shape, pnm::decode};
  static constexpr Codec kBmp = {bmp::shape, bmp::decode};
  switch (format) {
    case ImageFormat::jpeg:
      return &kJpeg;
    case ImageFormat::png:
      return &kPng;
    case ImageFormat::pnm:
      return &kPnm;
    case ImageFormat::bmp:
      return &kBmp;
    case ImageFormat::gif:
      return gif_codec();
    case ImageFormat::tiff:
      return tiff_codec();
    case ImageFormat::webp:
      return webp_codec();
    case ImageFormat::unknown:
      break;
  }
  return nullptr;
}

bool may_be_transparent(std::span<const std::byte> file) {
  const ImageFormat format = image_format(file);
  if (format == ImageFormat::png) return png::has_alpha(file);
  return format == ImageFormat::gif || format == ImageFormat::tiff || format == ImageFormat::webp;
}

Shape image_shape(std::span<const std::byte> file) { return codec_for(file).shape(file); }

void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out) {
  const Shape shape = shape_within(file, options);
  codec_for(file).decode(file, options, out.reset(DType::uint8, {shape[0], shape[1], 3}));
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
  const ImageFormat format = image_format(file);
  if (format == ImageFormat::jpeg) {
    throw Error(
        "a mask must be PNG, because JPEG compression changes class indices; save the mask as "
        "8-bit gray PNG");
  }
  if (format != ImageFormat::png)
    throw Error("a mask must be PNG, but this file is " + std::string(to_string(format)) +
                "; save it as 8-bit gray PNG");
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
