#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/core/region.h"

namespace slipstream {

using Rgb = std::array<std::uint8_t, 3>;

/// "black", "white", or "#rrggbb" in hexadecimal digits. Throws Refused for anything else.
Rgb color_named(const std::string& text);

/// How the decode step turns a file's bytes into pixels.
struct DecodeOptions {
  std::int64_t pixel_limit = kDefaultPixelLimit;
  Rgb background = {0, 0, 0};  ///< what is seen through transparent pixels: black
  /// Decode only the part of a JPEG that the first transform reads: the same pixels, sooner. Turn
  /// it off to have every byte of every file checked in every epoch.
  bool partial = true;
  /// Decode a JPEG at 1/2, 1/4 or 1/8 of its size where the first transform shrinks what it reads
  /// of it by as much: sooner, but other pixels (docs/transforms.md says how far off).
  bool scaled = false;
  bool operator==(const DecodeOptions&) const = default;
};

enum class ImageFormat { jpeg, png, unknown };

/// Told by the first bytes, whatever the file is called.
ImageFormat image_format(std::span<const std::byte> file);

/// Height and width as decode_rgb gives them (turned as a JPEG's EXIF orientation says) and
/// channels as stored, from the header alone. Throws Error.
Shape image_shape(std::span<const std::byte> file);

/// Decodes JPEG or PNG into interleaved 8-bit pixels, height x width x 3 (RGB).
/// JPEG: baseline and progressive, Huffman and (where libjpeg-turbo was built with it) arithmetic
/// coding; turned as the first EXIF segment ahead of the frame says. Gray becomes RGB. CMYK and
/// YCCK are read as Adobe and all others write them, 255 for no ink, whether or not the file has
/// Adobe's marker: level = round(ink * black / 255). 12 bits, lossless and hierarchical are refused
/// by name. PNG: every kind, interlaced or not; 16 bit are rounded to 8 (level = round(value * 255
/// / 65535)), and what is transparent (alpha, tRNS) is composited over `background`, before that
/// rounding; gamma and orientation (eXIf) are left alone. Throws Error for what is not an image, is
/// truncated or corrupt (a warning of the codec that the data ends early or is damaged counts), has
/// no pixels, or has more than `pixel_limit`. Never crashes, prints or exits.
void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out);

/// Decodes the pixels of `wanted.region`, and as many around them as come with no copy, into `out`.
/// Returns what `out` then holds, height x width x 3: a region around the wanted one, reduced by
/// the largest of 1, 2, 4 and 8 that is at most `wanted.reduction`, at least 1. Where it is 1,
/// wanted pixels have the bits that decode_rgb gives them; else, those that they have when the
/// whole image is wanted. What the others hold is unspecified. Returns nothing, with `out`
/// unspecified, for files that have to be decoded whole: PNG, turned by EXIF, CMYK, unusual
/// sampling factors, without an end marker. Throws Error as decode_rgb does, but need not notice
/// damage below the region; and for a region that does not lie in the image.
std::optional<Window> decode_rgb_window(std::span<const std::byte> file,
                                        const DecodeOptions& options, const Window& wanted,
                                        HostArray& out);

/// Decodes a PNG mask into class numbers, height x width, uint8: the gray level of 8-bit (or
/// smaller, unscaled) gray files, the palette index of palette files. Other kinds are refused.
void decode_mask(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out);

/// Encodes height x width x 3 (RGB) or height x width (gray) uint8 pixels. quality: 1 to 100.
std::vector<std::byte> encode_jpeg(const ConstArray& pixels, int quality);
std::vector<std::byte> encode_png(const ConstArray& pixels);

/// Reads a whole file into `out` (uint8, one dimension). Throws Error naming the path.
void read_file(const std::filesystem::path& path, HostArray& out);

}  // namespace slipstream
