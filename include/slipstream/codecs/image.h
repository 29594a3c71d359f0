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

/// Levels of red, green and blue, 0 to 255.
using Rgb = std::array<std::uint8_t, 3>;

/// The color that a text names: "black", "white", or "#rrggbb" in hexadecimal digits. Throws
/// Refused for anything else.
Rgb color_named(const std::string& text);

/// How the decode step turns a file's bytes into pixels.
struct DecodeOptions {
  std::int64_t pixel_limit = kDefaultPixelLimit;  ///< images of more pixels are an Error
  Rgb background = {0, 0, 0};                     ///< the color behind transparent pixels
  /// Whether only the part of a JPEG is decoded that the first transform reads. It gives the same
  /// pixels sooner. Turn it off to have every byte of every file checked in every epoch.
  bool partial = true;
  /// Whether a JPEG is decoded at 1/2, 1/4 or 1/8 of its size where the first transform shrinks
  /// what it reads of it by as much. It is faster and gives other pixels (docs/transforms.md says
  /// how far off).
  bool scaled = false;
  /// Whether damage that the codec can read past, such as bytes before the end marker of a JPEG, is
  /// an Error. Every file is then decoded whole. Otherwise such a file has the pixels that
  /// libjpeg-turbo or libpng gives.
  bool strict = false;
  /// Where it is set, receives the first warning that the codec gives about a file, such as
  /// "Corrupt JPEG data: 2 extraneous bytes before marker 0xd9". It stays as it is for a file
  /// without a warning.
  std::string* warning = nullptr;
  bool operator==(const DecodeOptions&) const = default;
};

/// The format of an image file.
enum class ImageFormat { jpeg, png, pnm, unknown };

/// The format that the first bytes of `file` tell, whatever the file is called.
ImageFormat image_format(std::span<const std::byte> file);

/// Height x width x channels of a JPEG, PNG, PPM or PGM file, from its header alone: height and
/// width as decode_rgb() gives them (turned as a JPEG's EXIF orientation says), channels as the
/// file stores them. Throws Error for any other file, or whose header is damaged.
Shape image_shape(std::span<const std::byte> file);

/// Decodes a JPEG, PNG, PPM or PGM file into `out`: uint8, height x width x 3 (RGB interleaved).
///
/// JPEG: baseline and progressive, with Huffman coding or, where libjpeg-turbo was built with it,
/// arithmetic coding. The image is turned as the first EXIF segment ahead of the frame says. Gray
/// becomes RGB. CMYK and YCCK are read with 255 for no ink, as programs write them with and without
/// Adobe's marker: level = round(ink * black / 255). An Error names what is not read: 12 bits,
/// lossless, hierarchical.
///
/// PNG: every kind, interlaced or not. 16 bits are rounded to 8: level = round(value * 255 /
/// 65535). Transparent pixels (alpha, tRNS) are composited over `background` before that rounding.
/// Gamma and orientation (eXIf) are left alone.
///
/// PPM and PGM: as text and binary, of any maximum: level = round(value / maximum * 255), as in
/// PIL.
///
/// Damage that libjpeg-turbo or libpng reads past with a warning is tolerated unless `strict`: the
/// file has the pixels that they give, which are PIL's for JPEG. A JPEG file that ends before its
/// last row is an Error, as in PIL.
///
/// Throws Error for a file that is not an image, is truncated or corrupt, has no pixels, or has
/// more than `pixel_limit`. Never crashes, prints or exits.
void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out);

/// Decodes a part of a JPEG file into `out` (uint8, height x width x 3): the pixels of
/// `wanted.region`, and as many around them as need no copy to leave out. Returns the part that
/// `out` holds: a region around the wanted one, reduced by the largest of 1, 2, 4 and 8 that is at
/// most `wanted.reduction`. With a reduction of 1 the wanted pixels have the bits that decode_rgb()
/// gives them. With another they have the bits that the whole image decoded at that reduction has.
/// The values of the other pixels are unspecified.
///
/// Returns no value, and leaves `out` unspecified, for files that have to be decoded whole: PNG,
/// JPEG that is turned by EXIF, is CMYK, has unusual sampling factors or lacks scans of a
/// progressive image, files of one scan with other markers than restarts before the end marker, and
/// every file where `strict` is set. Throws Error for a region that does not lie in the image and
/// for the files that decode_rgb() throws for: whether a file is accepted does not depend on the
/// region.
std::optional<Window> decode_rgb_window(std::span<const std::byte> file,
                                        const DecodeOptions& options, const Window& wanted,
                                        HostArray& out);

/// Decodes a PNG mask into class numbers (uint8, height x width): the gray level of a gray file of
/// at most 8 bits, not scaled, or the palette index of a palette file. Throws Error for PNG of
/// other kinds, for JPEG, and for files that decode_rgb() throws for.
void decode_mask(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out);

/// Encodes uint8 pixels, height x width x 3 (RGB) or height x width (gray), as JPEG. `quality` is 1
/// to 100. Throws Error for another array or quality.
std::vector<std::byte> encode_jpeg(const ConstArray& pixels, int quality);
/// Encodes uint8 pixels, height x width x 3 (RGB) or height x width (gray), as PNG. Throws Error
/// for another array.
std::vector<std::byte> encode_png(const ConstArray& pixels);

/// Reads a whole file into `out` (uint8, one dimension). Throws Error, naming the path, where it
/// cannot be read.
void read_file(const std::filesystem::path& path, HostArray& out);

}  // namespace slipstream
