#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "codecs/codec.h"
#include "codecs/tiff_file.h"
#include "codecs/tiff_pixels.h"
#include "slipstream/core/error.h"

namespace slipstream::tiff {
namespace {

/// A tile or a strip.
struct Block {
  std::uint32_t width = 0, height = 0;
  bool is_tile = false;
  std::size_t row_bytes = 0;  ///< of one plane if Layout::is_planar
  std::size_t bytes = 0;
};

std::uint32_t required_tag(const TiffFile& file, std::uint32_t tag) {
  std::uint32_t value = 0;
  if (TIFFGetField(file.handle(), tag, &value) != 1 || value == 0)
    file.refuse("a tile has no width or height");
  return value;
}

/// Throws Error if tiles cover so much more than the image that decoding them could take hours.
void check_tiles(const TiffFile& file, const Layout& layout, const Block& block) {
  constexpr std::uint64_t kAlways = std::uint64_t{2048} * 2048, kTimes = 16;
  const auto rounded = [](std::uint64_t side, std::uint64_t of) {
    return (side + of - 1) / of * of;
  };
  const std::uint64_t width = rounded(layout.width, block.width);
  const std::uint64_t height = rounded(layout.height, block.height);
  const std::uint64_t most = kAlways + kTimes * layout.width * layout.height;
  if (height > most / width) file.refuse("its tiles are far larger than the image");
}

Block read_block_size(const TiffFile& file, const Layout& layout) {
  Block block{};
  block.is_tile = TIFFIsTiled(file.handle()) != 0;
  if (block.is_tile) {
    block.width = required_tag(file, TIFFTAG_TILEWIDTH);
    block.height = required_tag(file, TIFFTAG_TILELENGTH);
    check_tiles(file, layout, block);
  } else {
    std::uint32_t rows = 0;
    TIFFGetFieldDefaulted(file.handle(), TIFFTAG_ROWSPERSTRIP, &rows);
    block.width = layout.width;
    block.height = std::clamp<std::uint32_t>(rows, 1, layout.height);
  }
  const std::size_t samples = layout.is_planar ? 1 : layout.samples;
  block.row_bytes = (std::size_t{block.width} * samples * layout.bits + 7) / 8;
  block.bytes = block.row_bytes * block.height;
  return block;
}

Block read_plain_block_size(const TiffFile& file, const Layout& layout) {
  const Block block = read_block_size(file, layout);
  const ::tmsize_t row =
      block.is_tile ? TIFFTileRowSize(file.handle()) : TIFFScanlineSize(file.handle());
  if (static_cast<std::size_t>(row) != block.row_bytes)
    file.refuse("its rows do not have the length that its tags declare");
  return block;
}

PixelConverter::Palette read_palette(const TiffFile& file, const Layout& layout) {
  PixelConverter::Palette palette{};
  if (layout.photometric != PHOTOMETRIC_PALETTE) return palette;
  std::array<std::uint16_t*, 3> colors{};
  if (TIFFGetField(file.handle(), TIFFTAG_COLORMAP, &colors[0], &colors[1], &colors[2]) != 1)
    file.refuse("it has no palette");
  // The upper byte, as in PIL: of 16 bits, some writers use only these 8.
  for (std::size_t i = 0; i < std::size_t{1} << layout.bits; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      palette[i][c] = static_cast<std::uint8_t>(colors[c][i] >> 8);
  return palette;
}

class Decoder {
 public:
  Decoder(TiffFile& file, const Layout& layout, const Rgb& background, const MutableArray& out)
      : file_(file),
        layout_(layout),
        block_(read_plain_block_size(file, layout)),
        palette_(read_palette(file, layout)),
        converter_(layout, palette_, background),
        turn_(make_turn(layout.orientation, layout.height, layout.width)),
        is_copied_(layout.is_rgb() && layout.orientation == kAsStored),
        levels_(out.as<std::uint8_t>()),
        buffer_(block_.bytes * planes()),
        row_(3 * std::size_t{layout.width}) {}

  void run() {
    for (std::uint32_t y = 0; y < layout_.height; y += block_.height) {
      for (std::uint32_t x = 0; x < layout_.width; x += block_.width) decode_block(y, x);
      if (block_.height > layout_.height - y) break;  // y could overflow
    }
  }

 private:
  std::uint16_t planes() const { return layout_.is_planar ? layout_.samples : std::uint16_t{1}; }

  void read_block(std::uint32_t y, std::uint32_t x, std::uint32_t rows, std::uint16_t plane) {
    TIFF* const tiff = file_.handle();
    void* const to = buffer_.data() + plane * block_.bytes;
    const std::size_t bytes = block_.is_tile ? block_.bytes : block_.row_bytes * rows;
    const auto size = static_cast<::tmsize_t>(bytes);
    const ::tmsize_t read =
        block_.is_tile ? TIFFReadEncodedTile(tiff, TIFFComputeTile(tiff, x, y, 0, plane), to, size)
                       : TIFFReadEncodedStrip(tiff, TIFFComputeStrip(tiff, y, plane), to, size);
    if (read != size) file_.refuse("its pixels end early");
    file_.check_warnings();
  }

  void decode_block(std::uint32_t top, std::uint32_t left) {
    const std::uint32_t rows = std::min(block_.height, layout_.height - top);
    const std::uint32_t columns = std::min(block_.width, layout_.width - left);
    for (std::uint16_t plane = 0; plane < planes(); ++plane) read_block(top, left, rows, plane);
    for (std::uint32_t y = 0; y < rows; ++y) {
      const std::byte* const stored = buffer_.data() + y * block_.row_bytes;
      if (is_copied_) {
        std::memcpy(levels_ + 3 * turn_.index(top + y, left), stored, 3 * std::size_t{columns});
        continue;
      }
      for (std::uint16_t plane = 0; plane < planes(); ++plane)
        converter_.add(stored + plane * block_.bytes, columns, plane);
      converter_.to_rgb(columns, row_.data());
      for (std::uint32_t x = 0; x < columns; ++x)
        std::copy_n(row_.data() + std::size_t{3} * x, 3,
                    levels_ + 3 * turn_.index(top + y, left + x));
    }
  }

  TiffFile& file_;
  const Layout& layout_;
  const Block block_;
  const PixelConverter::Palette palette_;
  PixelConverter converter_;
  const Turn turn_;
  const bool is_copied_;  ///< the stored bytes are those of the result
  std::uint8_t* levels_;
  std::vector<std::byte> buffer_;
  std::vector<std::uint8_t> row_;
};

/// Reads subsampled YCbCr, as PIL does.
void decode_rgba(TiffFile& file, const Layout& layout, const MutableArray& out) {
  read_block_size(file, layout);  // refuses huge tiles
  std::vector<std::uint32_t> pixels(std::size_t{layout.width} * layout.height);
  // libtiff would flip the image, but not turn it: with its own orientation it does neither.
  const int orientation = static_cast<int>(layout.orientation);
  if (TIFFReadRGBAImageOriented(file.handle(), layout.width, layout.height, pixels.data(),
                                orientation, 1) != 1)
    file.refuse("its pixels are damaged");
  file.check_warnings();
  const Turn turn = make_turn(layout.orientation, layout.height, layout.width);
  const std::uint32_t* pixel = pixels.data();
  for (std::uint32_t y = 0; y < layout.height; ++y) {
    for (std::uint32_t x = 0; x < layout.width; ++x, ++pixel) {
      std::uint8_t* to = out.as<std::uint8_t>() + 3 * turn.index(y, x);
      to[0] = static_cast<std::uint8_t>(TIFFGetR(*pixel));
      to[1] = static_cast<std::uint8_t>(TIFFGetG(*pixel));
      to[2] = static_cast<std::uint8_t>(TIFFGetB(*pixel));
    }
  }
}

void decode(std::span<const std::byte> bytes, const DecodeOptions& options,
            const MutableArray& out) {
  TiffFile file(bytes);
  const Layout layout = file.read_layout();
  file.watch_pixels(options.strict);
  if (layout.needs_rgba_reader)
    decode_rgba(file, layout, out);
  else
    Decoder(file, layout, options.background, out).run();
  if (options.warning != nullptr && !file.warning().empty()) *options.warning = file.warning();
}

Shape shape(std::span<const std::byte> bytes) {
  TiffFile file(bytes);
  const Layout layout = file.read_layout();
  if (swaps_sides(layout.orientation)) return {layout.width, layout.height, layout.samples};
  return {layout.height, layout.width, layout.samples};
}

}  // namespace
}  // namespace slipstream::tiff

namespace slipstream {

const Codec* tiff_codec() {
  static constexpr Codec kCodec = {tiff::shape, tiff::decode};
  return &kCodec;
}

}  // namespace slipstream
