#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "codecs/codec.h"
#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream::gif {
namespace {

using Palette = std::array<Rgb, 256>;

[[noreturn]] void refuse(const std::string& what) {
  throw Error("broken GIF: " + what + "; replace or remove the file");
}

[[noreturn]] void refuse(int error) {
  const char* const what = GifErrorString(error);
  refuse(what == nullptr ? std::string("it ends early") : what);
}

int on_read(GifFileType* gif, GifByteType* to, int bytes) {
  auto& rest = *static_cast<std::span<const std::byte>*>(gif->UserData);
  const std::size_t taken = std::min(rest.size(), static_cast<std::size_t>(bytes));
  std::memcpy(to, rest.data(), taken);
  rest = rest.subspan(taken);
  return static_cast<int>(taken);
}

/// A GIF file, read up to the pixels of its first image.
class GifFile {
 public:
  explicit GifFile(std::span<const std::byte> file) : rest_(file) {
    int error = 0;
    gif_ = DGifOpen(&rest_, on_read, &error);
    if (gif_ == nullptr) refuse(error);
    try {
      find_image();
    } catch (...) {
      close();
      throw;
    }
  }
  ~GifFile() { close(); }
  GifFile(const GifFile&) = delete;
  GifFile& operator=(const GifFile&) = delete;

  // The canvas grows where an image exceeds it, as in PIL.
  std::int64_t height() const {
    return std::max(gif_->SHeight, gif_->Image.Top + gif_->Image.Height);
  }
  std::int64_t width() const {
    return std::max(gif_->SWidth, gif_->Image.Left + gif_->Image.Width);
  }
  const GifImageDesc& image() const { return gif_->Image; }
  int transparent() const { return transparent_; }  ///< index, or NO_TRANSPARENT_COLOR

  /// The colors of the image. Without a palette, and after its end, index i is the gray level i, as
  /// in PIL.
  Palette palette() const {
    Palette colors;
    for (std::size_t i = 0; i < colors.size(); ++i) colors[i].fill(static_cast<std::uint8_t>(i));
    const ColorMapObject* const map =
        gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    if (map == nullptr) return colors;
    const std::size_t known = std::min(colors.size(), static_cast<std::size_t>(map->ColorCount));
    for (std::size_t i = 0; i < known; ++i)
      colors[i] = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue};
    return colors;
  }

  void read_row(std::vector<GifPixelType>& row) {
    if (DGifGetLine(gif_, row.data(), static_cast<int>(row.size())) != GIF_OK) refuse(gif_->Error);
  }

 private:
  void close() {
    int ignored = 0;
    DGifCloseFile(gif_, &ignored);
  }

  void check(int result) const {
    if (result != GIF_OK) refuse(gif_->Error);
  }

  void find_image() {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    while (true) {
      check(DGifGetRecordType(gif_, &type));
      if (type == TERMINATE_RECORD_TYPE) refuse("it has no image");
      if (type == IMAGE_DESC_RECORD_TYPE) return check(DGifGetImageDesc(gif_));
      read_extension();
    }
  }

  void read_extension() {
    int code = 0;
    GifByteType* block = nullptr;
    check(DGifGetExtension(gif_, &code, &block));
    GraphicsControlBlock control;
    // The first byte of a block is its size.
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
      transparent_ = control.TransparentColor;
    while (block != nullptr) check(DGifGetExtensionNext(gif_, &block));
  }

  std::span<const std::byte> rest_;
  GifFileType* gif_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

/// Calls `use` with the rows in the order in which they are stored.
template <typename Use>
void for_each_row(const GifImageDesc& image, const Use& use) {
  if (!image.Interlace) {
    for (int y = 0; y < image.Height; ++y) use(y);
    return;
  }
  constexpr int kStarts[] = {0, 4, 2, 1}, kSteps[] = {8, 8, 4, 2};
  for (int pass = 0; pass < 4; ++pass) {
    for (int y = kStarts[pass]; y < image.Height; y += kSteps[pass]) use(y);
  }
}

void decode(std::span<const std::byte> bytes, const DecodeOptions& options,
            const MutableArray& out) {
  GifFile file(bytes);
  Palette colors = file.palette();
  const bool has_transparency = file.transparent() != NO_TRANSPARENT_COLOR;
  if (has_transparency) colors[static_cast<std::size_t>(file.transparent())] = options.background;
  const Rgb around = has_transparency ? options.background : colors[0];
  const GifImageDesc& image = file.image();
  auto* const levels = out.as<std::uint8_t>();
  if (image.Width != file.width() || image.Height != file.height()) {
    for (std::size_t at = 0; at < out.bytes(); at += 3)
      std::copy(around.begin(), around.end(), levels + at);
  }
  std::vector<GifPixelType> row(static_cast<std::size_t>(image.Width));
  for_each_row(image, [&](int y) {
    file.read_row(row);
    std::uint8_t* to = levels + 3 * ((image.Top + y) * file.width() + image.Left);
    for (const GifPixelType index : row) to = std::copy_n(colors[index].begin(), 3, to);
  });
}

Shape shape(std::span<const std::byte> bytes) {
  const GifFile file(bytes);
  return {file.height(), file.width(), 1};
}

}  // namespace
}  // namespace slipstream::gif

namespace slipstream {

const Codec* gif_codec() {
  static constexpr Codec kCodec = {gif::shape, gif::decode};
  return &kCodec;
}

}  // namespace slipstream
