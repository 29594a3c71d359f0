#include "codecs/bmp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream::bmp {
namespace {

using File = std::span<const std::byte>;
using Palette = std::array<Rgb, 256>;

constexpr std::size_t kFileHeaderBytes = 14;
constexpr std::uint32_t kOldHeader = 12;  // of OS/2, with sizes of 16 bits
constexpr std::array<std::uint32_t, 7> kHeaders = {kOldHeader, 40, 52, 56, 64, 108, 124};
constexpr std::uint32_t kPlain = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3;

[[noreturn]] void refuse(const std::string& what) {
  throw Error("broken BMP: " + what + "; replace or remove the file");
}

[[noreturn]] void refuse_kind(const std::string& kind) {
  throw Error("this BMP has " + kind + ", which is not supported; convert it to 24 bits per pixel");
}

/// The bits of a pixel that hold one color.
class Channel {
 public:
  Channel() : Channel(0) {}
  explicit Channel(std::uint32_t mask)
      : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)), most_(mask >> shift_) {}

  bool is_empty() const { return mask_ == 0; }

  std::uint8_t level(std::uint32_t pixel) const {
    const std::uint64_t value = (pixel & mask_) >> shift_;
    // Truncated, as in PIL.
    return static_cast<std::uint8_t>(most_ == 255 || is_empty() ? value : value * 255 / most_);
  }

 private:
  std::uint32_t mask_;
  int shift_;
  std::uint32_t most_;  ///< the largest value
};

struct Header {
  std::int64_t width = 0, height = 0;
  bool is_top_down = false;
  std::uint32_t bits = 0;
  std::uint32_t compression = kPlain;
  std::array<Channel, 3> channels{};  ///< red, green, blue; for 16 and more bits
  std::uint32_t colors = 0;           ///< in the palette
  std::size_t palette = 0;            ///< offset of the palette
  std::size_t color_bytes = 4;
  std::size_t data = 0;  ///< offset of the pixels

  bool has_palette() const { return bits <= 8; }
  std::size_t row_bytes() const { return (static_cast<std::size_t>(width) * bits + 31) / 32 * 4; }
};

void read_old_sizes(File file, Header& header) {
  header.width = u16_le_at(file, 18);
  header.height = u16_le_at(file, 20);
  header.bits = u16_le_at(file, 24);
  header.color_bytes = 3;
}

void read_sizes(File file, Header& header) {
  header.width = static_cast<std::int32_t>(u32_le_at(file, 18));
  header.height = static_cast<std::int32_t>(u32_le_at(file, 22));
  header.is_top_down = header.height < 0;
  header.height = header.is_top_down ? -header.height : header.height;
  header.bits = u16_le_at(file, 28);
  header.compression = u32_le_at(file, 30);
  header.colors = u32_le_at(file, 46);
  if (header.width < 0) refuse("its width is negative");
}

void check_kind(const Header& header) {
  constexpr std::array<std::uint32_t, 6> kBits = {1, 4, 8, 16, 24, 32};
  if (std::find(kBits.begin(), kBits.end(), header.bits) == kBits.end())
    refuse_kind(std::to_string(header.bits) + " bits per pixel");
  const bool fits = header.compression == kPlain ||
                    (header.compression == kRle8 && header.bits == 8) ||
                    (header.compression == kRle4 && header.bits == 4) ||
                    (header.compression == kBitFields && header.bits > 8);
  if (!fits)
    refuse_kind("compression " + std::to_string(header.compression) + " with " +
                std::to_string(header.bits) + " bits per pixel");
}

void choose_channels(File file, Header& header) {
  header.channels = {Channel{0xff0000}, Channel{0xff00}, Channel{0xff}};
  if (header.bits == 16) header.channels = {Channel{0x7c00}, Channel{0x3e0}, Channel{0x1f}};
  if (header.compression != kBitFields) return;
  // With the header of 40 bytes, the masks follow it; later headers include them at this offset.
  constexpr std::size_t kMasks = 54;
  if (file.size() < kMasks + 12) refuse("it ends inside its header");
  std::array<Channel, 3> given;
  for (std::size_t c = 0; c < 3; ++c) given[c] = Channel(u32_le_at(file, kMasks + 4 * c));
  // Some programs leave all masks empty.
  const auto is_empty = [](const Channel& channel) { return channel.is_empty(); };
  if (!std::all_of(given.begin(), given.end(), is_empty)) header.channels = given;
}

Header read_header(File file) {
  const std::uint32_t bytes = u32_le_at(file, kFileHeaderBytes);
  if (file.size() < kFileHeaderBytes + bytes) refuse("it ends inside its header");
  Header header;
  header.data = u32_le_at(file, 10);
  header.palette = kFileHeaderBytes + bytes;
  if (bytes == kOldHeader)
    read_old_sizes(file, header);
  else
    read_sizes(file, header);
  check_kind(header);
  std::size_t after = header.palette;
  if (header.has_palette()) {
    if (header.colors == 0) header.colors = 1U << header.bits;
    after += header.color_bytes * header.colors;
    // Some programs do not count the palette.
    if (header.data == header.palette) header.data = after;
  } else {
    choose_channels(file, header);
    if (header.compression == kBitFields && bytes == 40) after += 12;
  }
  if (header.data == 0) header.data = after;
  return header;
}

/// Colors after the end of the palette are gray, as in PIL.
Palette read_palette(File file, const Header& header) {
  Palette palette;
  for (std::size_t i = 0; i < palette.size(); ++i) palette[i].fill(static_cast<std::uint8_t>(i));
  const std::size_t colors = std::min<std::size_t>(header.colors, palette.size());
  for (std::size_t i = 0; i < colors; ++i) {
    const std::size_t at = header.palette + i * header.color_bytes;
    if (file.size() < at + 3) refuse("it ends inside its palette");
    for (std::size_t c = 0; c < 3; ++c)
      palette[i][c] = static_cast<std::uint8_t>(u8_at(file, at + 2 - c));
  }
  return palette;
}

/// The rows of an image from the first one that is stored.
class Rows {
 public:
  Rows(const Header& header, const MutableArray& out)
      : header_(header), levels_(out.as<std::uint8_t>()) {}

  std::uint8_t* at(std::int64_t row, std::int64_t x) const {
    const std::int64_t y = header_.is_top_down ? row : header_.height - 1 - row;
    return levels_ + 3 * (y * header_.width + x);
  }

 private:
  const Header& header_;
  std::uint8_t* levels_;
};

void decode_indices(File row, const Header& header, const Palette& palette, std::uint8_t* to) {
  const std::uint32_t per_byte = 8 / header.bits, mask = (1U << header.bits) - 1;
  for (std::int64_t x = 0; x < header.width; ++x) {
    const auto place = static_cast<std::size_t>(x);
    const std::uint32_t shift = 8 - header.bits * static_cast<std::uint32_t>(place % per_byte + 1);
    to = std::copy_n(palette[u8_at(row, place / per_byte) >> shift & mask].begin(), 3, to);
  }
}

void decode_colors(File row, const Header& header, std::uint8_t* to) {
  const std::size_t bytes = header.bits / 8;
  for (std::size_t at = 0; at < bytes * static_cast<std::size_t>(header.width); at += bytes) {
    std::uint32_t pixel = u16_le_at(row, at);
    if (bytes > 2) pixel |= u8_at(row, at + 2) << 16;
    if (bytes > 3) pixel |= u8_at(row, at + 3) << 24;
    for (const Channel& channel : header.channels) *to++ = channel.level(pixel);
  }
}

void decode_plain(File file, const Header& header, const Palette& palette, const Rows& rows) {
  const std::size_t row_bytes = header.row_bytes();
  if (header.data > file.size() ||
      (file.size() - header.data) / row_bytes < static_cast<std::size_t>(header.height))
    refuse("it ends early");
  for (std::int64_t y = 0; y < header.height; ++y) {
    const File row = file.subspan(header.data + row_bytes * static_cast<std::size_t>(y), row_bytes);
    if (header.has_palette())
      decode_indices(row, header, palette, rows.at(y, 0));
    else
      decode_colors(row, header, rows.at(y, 0));
  }
}

/// Decodes runs of equal pixels. Pixels that the file leaves out have index 0, and those outside of
/// the image are ignored.
class RunDecoder {
 public:
  RunDecoder(File file, const Header& header, const Palette& palette, const Rows& rows)
      : file_(file), at_(header.data), header_(header), palette_(palette), rows_(rows) {}

  void run() {
    for (std::int64_t y = 0; y < header_.height; ++y) {
      for (std::int64_t x = 0; x < header_.width; ++x)
        std::copy_n(palette_[0].begin(), 3, rows_.at(y, x));
    }
    while (y_ < header_.height) {
      const std::uint32_t count = next(), value = next();
      if (count > 0) {
        for (std::uint32_t i = 0; i < count; ++i) put(index_in(value, i));
      } else if (!escape(value)) {
        return;
      }
    }
  }

 private:
  std::uint32_t next() {
    if (at_ >= file_.size()) refuse("it ends early");
    return u8_at(file_, at_++);
  }

  /// Returns the index of pixel `i`. A byte holds one index of 8 bits, or two of 4 bits, the first
  /// one in
  /// its upper half.
  std::uint32_t index_in(std::uint32_t byte, std::uint32_t i) const {
    if (header_.compression == kRle8) return byte;
    return i % 2 == 0 ? byte >> 4 : byte & 15;
  }

  void put(std::uint32_t index) {
    if (x_ < header_.width) std::copy_n(palette_[index].begin(), 3, rows_.at(y_, x_));
    ++x_;
  }

  /// Returns false at the end of the image.
  bool escape(std::uint32_t value) {
    if (value == 0) {
      x_ = 0;
      ++y_;
    } else if (value == 2) {
      x_ += next();
      y_ += next();
    } else if (value > 2) {
      copy(value);
    }
    return value != 1;
  }

  void copy(std::uint32_t count) {
    const std::size_t first = at_;
    std::uint32_t byte = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (header_.compression == kRle8 || i % 2 == 0) byte = next();
      put(index_in(byte, i));
    }
    at_ += (at_ - first) % 2;  // padded to 16 bits
  }

  File file_;
  std::size_t at_;
  const Header& header_;
  const Palette& palette_;
  const Rows& rows_;
  std::int64_t x_ = 0, y_ = 0;  ///< y counts rows from the first one that is stored
};

}  // namespace

bool starts(File file) {
  if (file.size() < kFileHeaderBytes + kOldHeader || u16_at(file, 0) != 0x424d) return false;  // BM
  const std::uint32_t bytes = u32_le_at(file, kFileHeaderBytes);
  return std::find(kHeaders.begin(), kHeaders.end(), bytes) != kHeaders.end();
}

Shape shape(File file) {
  const Header header = read_header(file);
  return {header.height, header.width, header.has_palette() ? 1 : 3};
}

void decode(File file, const DecodeOptions&, const MutableArray& out) {
  const Header header = read_header(file);
  const Rows rows(header, out);
  Palette palette{};
  if (header.has_palette()) palette = read_palette(file, header);
  if (header.compression == kRle8 || header.compression == kRle4)
    RunDecoder(file, header, palette, rows).run();
  else
    decode_plain(file, header, palette, rows);
}

}  // namespace slipstream::bmp
