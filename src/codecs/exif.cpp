#include "codecs/exif.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/bytes.h"

namespace slipstream {
namespace {

constexpr std::array<unsigned, 6> kExif = {'E', 'x', 'i', 'f', 0, 0};
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3, kLong = 4;
constexpr std::size_t kEntryBytes = 12;

/// A TIFF file of either byte order. Reading outside of it returns no value, because the offsets in
/// a file may be wrong.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes) {
    const auto order = bytes.size() < 4 ? 0 : u16_at(bytes, 0);
    is_little_ = order == 0x4949;
    is_tiff_ = (is_little_ || order == 0x4d4d) && u16(2) == 42;
  }

  bool is_tiff() const { return is_tiff_; }

  std::optional<std::uint32_t> u16(std::size_t at) const {
    if (at > bytes_.size() || bytes_.size() - at < 2) return std::nullopt;
    if (!is_little_) return u16_at(bytes_, at);
    return u8_at(bytes_, at + 1) << 8 | u8_at(bytes_, at);
  }

  std::optional<std::uint32_t> u32(std::size_t at) const {
    const auto first = u16(at);
    const auto second = u16(at + 2);
    if (!first || !second) return std::nullopt;
    return is_little_ ? *second << 16 | *first : *first << 16 | *second;
  }

 private:
  std::span<const std::byte> bytes_;
  bool is_little_ = false;
  bool is_tiff_ = false;
};

Orientation orientation_in(const Tiff& tiff, std::size_t directory) {
  const std::uint32_t entries = tiff.u16(directory).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    const auto tag = tiff.u16(entry);
    if (!tag) break;
    if (tag != kOrientationTag) continue;
    const auto type = tiff.u16(entry + 2);
    const auto value = type == kLong ? tiff.u32(entry + 8) : tiff.u16(entry + 8);
    const bool is_sound = (type == kShort || type == kLong) && tiff.u32(entry + 4) == 1;
    return is_sound && value && *value >= 1 && *value <= 8 ? static_cast<Orientation>(*value)
                                                           : kAsStored;
  }
  return kAsStored;
}

}  // namespace

bool is_exif(std::span<const std::byte> segment) {
  const auto same = [](unsigned want, std::byte have) {
    return std::to_integer<unsigned>(have) == want;
  };
  return segment.size() >= kExif.size() &&
         std::equal(kExif.begin(), kExif.end(), segment.begin(), same);
}

Orientation exif_orientation(std::span<const std::byte> segment) {
  return is_exif(segment) ? tiff_orientation(segment.subspan(kExif.size())) : kAsStored;
}

Orientation tiff_orientation(std::span<const std::byte> bytes) {
  const Tiff tiff(bytes);
  const auto directory = tiff.u32(4);
  return tiff.is_tiff() && directory ? orientation_in(tiff, *directory) : kAsStored;
}

Turn make_turn(Orientation orientation, std::ptrdiff_t height, std::ptrdiff_t width) {
  const std::ptrdiff_t last = height * width - 1;
  switch (orientation) {
    case 2:
      return {width - 1, width, -1};
    case 3:
      return {last, -width, -1};
    case 4:
      return {last - (width - 1), -width, 1};
    case 5:
      return {0, 1, height};
    case 6:
      return {height - 1, -1, height};
    case 7:
      return {last, -1, -height};
    case 8:
      return {last - (height - 1), 1, -height};
    default:
      return {0, width, 1};
  }
}

}  // namespace slipstream
