#include "codecs/tiff_file.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>

#include "slipstream/core/error.h"

namespace slipstream::tiff {
namespace {

/// Arrays of libtiff itself, such as the offsets of strips: a damaged tag can claim any number.
constexpr ::tmsize_t kMostLibraryBytes = ::tmsize_t{256} << 20;
/// As in PIL. More samples are not colors but bands, such as those of satellite images.
constexpr std::uint16_t kMostSamples = 6;

// libtiff maps the file, so that it copies nothing but the header.

::tmsize_t on_read(thandle_t handle, void* to, ::tmsize_t bytes) {
  auto& file = *static_cast<ReadOnlyFile*>(handle);
  const std::uint64_t size = file.bytes.size();
  const std::uint64_t first = std::min(file.position, size);
  const std::uint64_t count = std::min(static_cast<std::uint64_t>(bytes), size - first);
  std::memcpy(to, file.bytes.data() + first, count);
  file.position = first + count;
  return static_cast<::tmsize_t>(count);
}

::tmsize_t on_write(thandle_t, void*, ::tmsize_t) { return 0; }

::toff_t on_seek(thandle_t handle, ::toff_t offset, int whence) {
  auto& file = *static_cast<ReadOnlyFile*>(handle);
  const std::uint64_t start = whence == SEEK_CUR   ? file.position
                              : whence == SEEK_END ? file.bytes.size()
                                                   : 0;
  file.position = start + offset;
  return file.position;
}

int on_close(thandle_t) { return 0; }

::toff_t on_size(thandle_t handle) { return static_cast<ReadOnlyFile*>(handle)->bytes.size(); }

int on_map(thandle_t handle, void** base, ::toff_t* size) {
  const auto& file = *static_cast<ReadOnlyFile*>(handle);
  *base = const_cast<std::byte*>(file.bytes.data());  // libtiff does not write to it
  *size = file.bytes.size();
  return 1;
}

void on_unmap(thandle_t, void*, ::toff_t) {}

[[noreturn]] void refuse_kind(const std::string& kind) {
  throw Error("this TIFF has " + kind + ", which is not supported; convert it to 8-bit RGB");
}

void check_kind(const Layout& layout, std::uint16_t sample_format) {
  if (sample_format == SAMPLEFORMAT_IEEEFP)
    refuse_kind("floating-point samples of " + std::to_string(layout.bits) + " bits");
  if (sample_format != SAMPLEFORMAT_UINT && sample_format != SAMPLEFORMAT_VOID)
    refuse_kind("signed or complex samples");
  constexpr std::array<std::uint16_t, 5> kBits = {1, 2, 4, 8, 16};
  const bool is_narrow = layout.photometric == PHOTOMETRIC_MINISWHITE ||
                         layout.photometric == PHOTOMETRIC_MINISBLACK ||
                         layout.photometric == PHOTOMETRIC_PALETTE;
  if (std::find(kBits.begin(), kBits.end(), layout.bits) == kBits.end() ||
      (layout.bits < 8 && !is_narrow) ||
      (layout.bits == 16 && layout.photometric == PHOTOMETRIC_PALETTE))
    refuse_kind(std::to_string(layout.bits) + " bits per sample");
  if (layout.photometric == PHOTOMETRIC_PALETTE && layout.samples > 1 && layout.bits != 8)
    refuse_kind("a palette, alpha and " + std::to_string(layout.bits) + " bits per sample");
  if (layout.samples < layout.colors() || layout.samples > kMostSamples)
    refuse_kind(std::to_string(layout.samples) + " samples per pixel");
}

}  // namespace

std::uint16_t Layout::colors() const {
  switch (photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      return 1;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      return 3;
    case PHOTOMETRIC_SEPARATED:
      return 4;
    default:
      refuse_kind("colors of kind " + std::to_string(photometric) +
                  " (tag PhotometricInterpretation)");
  }
}

TiffFile::TiffFile(std::span<const std::byte> bytes) : bytes_{bytes} {
  struct FreeOptions {
    void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
  };
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostLibraryBytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
  handle_.reset(TIFFClientOpenExt("TIFF", "r", &bytes_, on_read, on_write, on_seek, on_close,
                                  on_size, on_map, on_unmap, options.get()));
  if (handle_ == nullptr) refuse("its header is damaged");
}

int TiffFile::on_error(TIFF*, void* self, const char*, const char* format, va_list values) {
  Message& error = static_cast<TiffFile*>(self)->error_;
  if (error[0] == 0) std::vsnprintf(error.data(), error.size(), format, values);
  return 1;  // otherwise libtiff prints it
}

int TiffFile::on_warning(TIFF*, void* self, const char*, const char* format, va_list values) {
  TiffFile& file = *static_cast<TiffFile*>(self);
  if (file.watches_pixels_ && file.warning_[0] == 0)
    std::vsnprintf(file.warning_.data(), file.warning_.size(), format, values);
  return 1;
}

void TiffFile::refuse(const std::string& otherwise) const {
  throw Error("broken TIFF: " + (error_[0] == 0 ? otherwise : error_.data()) +
              "; replace or remove the file");
}

void TiffFile::watch_pixels(bool refuses_warnings) {
  watches_pixels_ = true;
  refuses_warnings_ = refuses_warnings;
}

void TiffFile::check_warnings() const {
  if (refuses_warnings_ && warning_[0] != 0)
    throw Error("broken TIFF: " + warning() + "; replace or remove the file");
}

std::uint16_t TiffFile::tag(std::uint32_t tag, std::uint16_t otherwise) const {
  std::uint16_t value = otherwise;
  return TIFFGetField(handle(), tag, &value) == 1 ? value : otherwise;
}

void TiffFile::read_alpha(Layout& layout) const {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  const bool is_given = TIFFGetField(handle(), TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1;
  if (!is_given || count == 0) {
    // As in PIL: the fourth sample of RGB is alpha, though the tag is missing.
    if (layout.photometric == PHOTOMETRIC_RGB && layout.samples == 4) layout.alpha = 3;
    return;
  }
  for (std::uint16_t i = 0; i < count && layout.alpha == 0; ++i) {
    if (kinds[i] == EXTRASAMPLE_UNSPECIFIED || layout.colors() + i >= layout.samples) continue;
    layout.alpha = static_cast<std::uint16_t>(layout.colors() + i);
    layout.is_premultiplied = kinds[i] == EXTRASAMPLE_ASSOCALPHA;
  }
}

Layout TiffFile::read_layout() {
  Layout layout;
  if (TIFFGetField(handle(), TIFFTAG_IMAGEWIDTH, &layout.width) != 1 ||
      TIFFGetField(handle(), TIFFTAG_IMAGELENGTH, &layout.height) != 1)
    refuse("it has no width or height");
  layout.bits = tag(TIFFTAG_BITSPERSAMPLE, 1);
  layout.samples = tag(TIFFTAG_SAMPLESPERPIXEL, 1);
  layout.photometric =
      tag(TIFFTAG_PHOTOMETRIC, layout.samples < 3 ? PHOTOMETRIC_MINISWHITE : PHOTOMETRIC_RGB);
  layout.is_planar =
      tag(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE && layout.samples > 1;
  const std::uint16_t orientation = tag(TIFFTAG_ORIENTATION, kAsStored);
  if (orientation >= 1 && orientation <= 8) layout.orientation = orientation;
  const std::uint16_t compression = tag(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  if (compression == COMPRESSION_OJPEG) refuse_kind("the obsolete JPEG compression of TIFF 6.0");
  if (TIFFIsCODECConfigured(compression) == 0)
    refuse_kind("compression " + std::to_string(compression));
  check_kind(layout, tag(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT));
  read_alpha(layout);
  if (layout.photometric == PHOTOMETRIC_SEPARATED &&
      tag(TIFFTAG_INKSET, INKSET_CMYK) != INKSET_CMYK)
    refuse_kind("inks other than cyan, magenta, yellow and black");
  if (layout.photometric != PHOTOMETRIC_YCBCR) return layout;
  if (layout.bits != 8) refuse_kind(std::to_string(layout.bits) + " bits per sample of YCbCr");
  if (compression == COMPRESSION_JPEG && !layout.is_planar) {
    // libjpeg-turbo then converts to RGB, as for a JPEG file, and in PIL.
    TIFFSetField(handle(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    layout.photometric = PHOTOMETRIC_RGB;
  } else {
    layout.needs_rgba_reader = true;
  }
  return layout;
}

}  // namespace slipstream::tiff
