#include "codecs/formats.h"

#include <algorithm>

#include "codecs/codec.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct Library {
  const char* name;
  const char* package;  ///< of Debian and Ubuntu, for building
};

Library find_library(ImageFormat format) {
  if (format == ImageFormat::gif) return {"giflib", "libgif-dev"};
  if (format == ImageFormat::tiff) return {"libtiff", "libtiff-dev"};
  return {"libwebp", "libwebp-dev"};
}

}  // namespace

std::string_view to_string(ImageFormat format) {
  switch (format) {
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::pnm:
      return "PNM";
    case ImageFormat::bmp:
      return "BMP";
    case ImageFormat::gif:
      return "GIF";
    case ImageFormat::tiff:
      return "TIFF";
    case ImageFormat::webp:
      return "WebP";
    case ImageFormat::unknown:
      break;
  }
  return "unknown";
}

bool can_decode(ImageFormat format) {
  return format != ImageFormat::unknown && find_codec(format) != nullptr;
}

std::string_view image_extension(ImageFormat format) {
  const auto found =
      std::find_if(kImageExtensions.begin(), kImageExtensions.end(),
                   [&](const ImageExtension& each) { return each.format == format; });
  ensure(found != kImageExtensions.end(), "every format has an extension");
  return found->text;
}

std::string missing_codec_message(ImageFormat format) {
  const Library library = find_library(format);
  const std::string name(to_string(format));
  return "this build of Slipstream cannot decode " + name + " files, because " + library.name +
         " was not installed when it was built; install " + library.package +
         " and build again, or convert the file to PNG";
}

}  // namespace slipstream
