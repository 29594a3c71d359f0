#pragma once

#include <array>
#include <string>
#include <string_view>

#include "slipstream/codecs/image.h"

namespace slipstream {

/// A file extension with its dot, in lower case, and the format of files that have it.
struct ImageExtension {
  std::string_view text;
  ImageFormat format;
};

/// The extensions of the image files that data sets read. The first one of a format is the one that
/// files are written with.
inline constexpr std::array kImageExtensions = {
    ImageExtension{".jpg", ImageFormat::jpeg},  ImageExtension{".jpeg", ImageFormat::jpeg},
    ImageExtension{".jpe", ImageFormat::jpeg},  ImageExtension{".jfif", ImageFormat::jpeg},
    ImageExtension{".png", ImageFormat::png},   ImageExtension{".ppm", ImageFormat::pnm},
    ImageExtension{".pgm", ImageFormat::pnm},   ImageExtension{".bmp", ImageFormat::bmp},
    ImageExtension{".gif", ImageFormat::gif},   ImageExtension{".tif", ImageFormat::tiff},
    ImageExtension{".tiff", ImageFormat::tiff}, ImageExtension{".webp", ImageFormat::webp}};

/// The extensions in messages.
inline constexpr const char* kImageNames =
    ".jpg, .jpeg, .jpe, .jfif, .png, .ppm, .pgm, .bmp, .gif, .tif, .tiff or .webp";

/// Returns the extension that files of a format are written with.
/// REQUIRES: format is not unknown
std::string_view image_extension(ImageFormat format);

/// Says that this build cannot decode a format, and what to do.
std::string missing_codec_message(ImageFormat format);

}  // namespace slipstream
