#pragma once

#include <tiffio.h>

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "codecs/exif.h"
#include "slipstream/codecs/image.h"

namespace slipstream::tiff {

/// The description of the pixels in the first directory of a file.
struct Layout {
  std::uint32_t width = 0, height = 0;  ///< as stored
  Orientation orientation = kAsStored;
  std::uint16_t bits = 1;          ///< per sample: 1, 2, 4, 8 or 16
  std::uint16_t samples = 1;       ///< per pixel, colors first
  std::uint16_t photometric = 0;   ///< PHOTOMETRIC_...
  bool is_planar = false;          ///< each sample has its own blocks
  bool needs_rgba_reader = false;  ///< subsampled YCbCr, which only TIFFReadRGBAImage() reads
  std::uint16_t alpha = 0;         ///< index of the sample with alpha; 0: there is none
  bool is_premultiplied = false;   ///< colors are multiplied by alpha

  std::uint16_t colors() const;  ///< samples that are colors: 1, 3 or 4
  /// Returns true if pixels are stored as bytes of red, green and blue and nothing else.
  bool is_rgb() const {
    return photometric == PHOTOMETRIC_RGB && bits == 8 && samples == 3 && !is_planar;
  }
};

/// A file in memory, as libtiff reads it.
struct ReadOnlyFile {
  std::span<const std::byte> bytes;
  std::uint64_t position = 0;
};

/// An open TIFF file of which the first image is read, as in PIL. Borrows the bytes.
class TiffFile {
 public:
  /// Throws Error for a damaged file.
  explicit TiffFile(std::span<const std::byte> bytes);
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  TIFF* handle() const { return handle_.get(); }

  /// Reads the tags. Throws Error for pixels of an unsupported kind. Call it once.
  Layout read_layout();

  /// Starts to report warnings. Earlier warnings are about tags, most of them private, and not
  /// about pixels.
  void watch_pixels(bool refuses_warnings);
  std::string warning() const { return warning_.data(); }  ///< the first one, or ""

  /// Throws Error with the message of libtiff, or with `otherwise` if there is none.
  [[noreturn]] void refuse(const std::string& otherwise) const;
  /// Throws Error if a warning was reported that must be refused.
  void check_warnings() const;

 private:
  // Arrays, because an exception must not pass through libtiff's C frames.
  using Message = std::array<char, 256>;
  struct Close {
    void operator()(TIFF* handle) const { TIFFClose(handle); }
  };

  static int on_error(TIFF*, void* self, const char* module, const char* format, va_list values);
  static int on_warning(TIFF*, void* self, const char* module, const char* format, va_list values);
  std::uint16_t tag(std::uint32_t tag, std::uint16_t otherwise) const;
  void read_alpha(Layout& layout) const;

  ReadOnlyFile bytes_;
  Message error_{}, warning_{};  ///< the first ones, or ""
  bool watches_pixels_ = false, refuses_warnings_ = false;
  std::unique_ptr<TIFF, Close> handle_;  ///< last, so that it is closed while the others exist
};

}  // namespace slipstream::tiff
