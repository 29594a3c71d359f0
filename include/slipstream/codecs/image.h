#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/core/region.h"

namespace slipstream {

/// Levels of red, green and blue, 0 to 255.
using Rgb = std::array<std::uint8_t, 3>;

/// Parses a color: "black", "white", or "#rrggbb" in hexadecimal digits. Throws Refused for
/// anything else.
Rgb color_named(const std::string& text);

/// Options for decoding an image file to pixels.
struct DecodeOptions {
  std::int64_t pixel_limit = kDefaultPixelLimit;  ///< images with more pixels raise Error
  Rgb background = {0, 0, 0};  ///< color that transparent pixels are composited over
  /// If true, only the part of a JPEG that the first transform reads is decoded. The pixels are the
  /// same and decoding is faster. Set it to false to have every byte of every file checked in every
  /// epoch.
  bool partial = true;
  /// If true, a JPEG is decoded at 1/2, 1/4 or 1/8 of its size if the first transform downscales
  /// the part that it reads by at least that factor. This is faster but changes the pixels
  /// (docs/transforms.md gives the error).
  bool scaled = false;
  /// If true, damage that the codec can skip, such as bytes before the end marker of a JPEG, raises
  /// Error, and every file is decoded completely. If false, such a file has the pixels that
  /// libjpeg-turbo or libpng returns.
  bool strict = false;
  /// If not null, receives the first warning of the codec about a file, such as "Corrupt JPEG data:
  /// 2 extraneous bytes before marker 0xd9". It is not changed for a file without a warning.
  /// Borrowed; one thread decodes with it at a time.
  std::string* warning = nullptr;
  bool operator==(const DecodeOptions&) const = default;
};

/// The format of an image file.
enum class ImageFormat : std::uint8_t { jpeg, png, pnm, bmp, gif, tiff, webp, unknown };

/// Returns the name of a format: "JPEG", "PNG", "PNM", "BMP", "GIF", "TIFF", "WebP" or "unknown".
std::string_view to_string(ImageFormat format);

/// Returns true if this build decodes files of a format. GIF, TIFF and WebP need giflib, libtiff
/// and libwebp on the machine that builds Slipstream. All other formats are always decoded.
bool can_decode(ImageFormat format);

/// Detects the format from the first bytes of `file`. The file's name is not used.
ImageFormat image_format(std::span<const std::byte> file);

/// Reads height x width x channels of an image file from its header only. Height and width are
/// those that decode_rgb() returns (after the rotation that an orientation specifies); channels are
/// those stored in the file. Throws Error for any other file, for a format that this build cannot
/// decode, and for a damaged header.
Shape image_shape(std::span<const std::byte> file);

/// Decodes an image file in host memory into `out`: uint8, height x width x 3 (RGB interleaved).
/// Thread-safe for distinct `out` and `options.warning`, as are all functions of this header.
///
/// In all formats, transparent pixels are composited over `background`:
/// level = round((level * alpha + background * (255 - alpha)) / 255). If a file has several frames
/// or pages, the first one is decoded. Pixels without transparency are those of PIL's
/// Image.open(file).convert("RGB"), except for 16 bits, which PIL truncates and which are rounded
/// here: level = round(value * 255 / 65535).
///
/// JPEG: baseline and progressive, with Huffman coding or, if libjpeg-turbo was built with it,
/// arithmetic coding. The image is rotated and flipped as the first EXIF segment before the frame
/// header specifies. Gray is converted to RGB. In CMYK and YCCK, 255 means no ink, as programs
/// write them with and without Adobe's marker: level = round(ink * black / 255). Unsupported kinds
/// raise an Error that names them: 12 bits, lossless, hierarchical.
///
/// PNG: every kind, interlaced or not. Transparent pixels (alpha, tRNS) of 16 bits are composited
/// before they are rounded to 8. Gamma and orientation (eXIf) are ignored.
///
/// PPM and PGM: text and binary, with any maximum: level = round(value / maximum * 255), as in PIL.
///
/// BMP: 1 to 32 bits per pixel, with or without RLE compression and bit masks. The fourth byte of
/// 32 bits is ignored, because most programs write no valid alpha to it.
///
/// GIF: the canvas around a smaller image is transparent, or has color 0 of the palette if the
/// image has no transparent color, as in PIL.
///
/// TIFF: gray, palette, RGB, CMYK and YCbCr, of up to 16 unsigned bits, in strips or tiles, with
/// every compression of the installed libtiff except the obsolete JPEG. Rotated and flipped as the
/// tag Orientation specifies. Other kinds raise an Error that names them: floating-point or signed
/// samples, CIELab, more than six samples per pixel.
///
/// WebP: lossy and lossless. Rotated and flipped as EXIF specifies, like JPEG.
///
/// Damage that libjpeg-turbo, libpng or libtiff skips with a warning is tolerated unless `strict`:
/// the result is the pixels that the codec returns, which equal PIL's for JPEG. A JPEG file that
/// ends before its last row raises Error, as in PIL.
///
/// Throws Error for a file that is not an image, is truncated or corrupt, has no pixels, or has
/// more than `pixel_limit` pixels. Never crashes, prints or exits.
void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out);

/// Decodes a part of a JPEG file into `out` (uint8, height x width x 3): the pixels of
/// `wanted.region`, plus surrounding pixels where removing them would need a copy. Returns the part
/// that `out` holds: a region around the wanted one, reduced by the largest of 1, 2, 4 and 8 that
/// is at most `wanted.reduction`. With a reduction of 1 the wanted pixels are bit for bit those of
/// decode_rgb(). With another reduction they are bit for bit those of the whole image decoded at
/// that reduction. The values of the surrounding pixels are unspecified.
///
/// Returns no value, and leaves `out` unspecified, for files that must be decoded completely:
/// formats other than JPEG; JPEG that is rotated by EXIF, is CMYK, has unusual sampling factors or
/// lacks scans of a progressive image; files of one scan with markers other than restarts before
/// the end marker; and every file if `strict` is set. Throws Error for a region outside the image
/// and for the files for which decode_rgb() throws: whether a file is accepted does not depend on
/// the region.
std::optional<Window> decode_rgb_window(std::span<const std::byte> file,
                                        const DecodeOptions& options, const Window& wanted,
                                        HostArray& out);

/// Decodes a PNG mask into class indices (uint8, height x width): the unscaled gray level of a gray
/// file of at most 8 bits, or the palette index of a palette file. Throws Error for other kinds of
/// PNG, for other formats, and for the files for which decode_rgb() throws.
void decode_mask(std::span<const std::byte> file, const DecodeOptions& options, HostArray& out);

/// Encodes uint8 pixels, height x width x 3 (RGB) or height x width (gray), as JPEG. `quality` is 1
/// to 100. Throws Error for any other array or quality.
std::vector<std::byte> encode_jpeg(const ConstArray& pixels, int quality);
/// Encodes uint8 pixels, height x width x 3 (RGB) or height x width (gray), as PNG. Throws Error
/// for any other array.
std::vector<std::byte> encode_png(const ConstArray& pixels);

/// Reads a whole file into `out` (uint8, one dimension). Blocks until it is read. Throws Error with
/// the path if the file cannot be read.
void read_file(const std::filesystem::path& path, HostArray& out);

}  // namespace slipstream
