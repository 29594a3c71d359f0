#include "codecs/jpeg_engine.h"

#include <array>

#include "codecs/jpeg_header.h"
#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream::jpeg {
namespace {

using File = std::span<const std::byte>;

constexpr std::uint32_t kBaseline = 0xc0;
constexpr std::uint32_t kRestartInterval = 0xdd;
constexpr std::uint32_t kAdobe = 0xee;

/// Returns true if the data of an APP14 (Adobe) segment declares colors other than YCbCr.
bool says_other_colors(File segment) {
  constexpr std::array<unsigned, 5> kName = {'A', 'd', 'o', 'b', 'e'};
  constexpr std::size_t kTransform = 11;
  if (segment.size() <= kTransform) return false;
  for (std::size_t i = 0; i < kName.size(); ++i) {
    if (u8_at(segment, i) != kName[i]) return false;
  }
  return u8_at(segment, kTransform) != 1;
}

struct Scan {
  std::uint32_t components = 0;
  std::size_t data = 0;  ///< offset of the data after the scan's header
  bool has_restarts = false;
};

/// Returns the first scan, or no value if there is none or the colors are not YCbCr.
std::optional<Scan> first_scan(File file) {
  Scan scan;
  std::size_t at = 2;
  while (at + 5 <= file.size() && u8_at(file, at) == 0xff) {
    const std::uint32_t marker = u8_at(file, at + 1);
    if (marker == 0xff) {
      ++at;
      continue;
    }
    const std::size_t length = u16_at(file, at + 2);
    if (marker == kEndOfImage || length < 2 || file.size() - at - 2 < length) return std::nullopt;
    if (marker == kStartOfScan) {
      scan.components = u8_at(file, at + 4);
      scan.data = at + 2 + length;
      return scan;
    }
    if (marker == kRestartInterval && length == 4) scan.has_restarts = u16_at(file, at + 4) > 0;
    if (marker == kAdobe && says_other_colors(file.subspan(at + 4, length - 2))) break;
    at += 2 + length;
  }
  return std::nullopt;
}

bool is_usual(File file, const Header& header) {
  const auto count = static_cast<std::size_t>(header.stored[2]);
  if (count != 1 && count != 3) return false;
  if (file.size() < header.components + 3 * count) return false;
  const auto sampling = [&](std::size_t i) { return u8_at(file, header.components + 3 * i + 1); };
  const std::uint32_t first = sampling(0);
  if (count == 1) return first == 0x11;
  // libjpeg takes components with the ids R, G and B for RGB even without Adobe's marker.
  const bool is_rgb = u8_at(file, header.components) == 'R';
  const bool is_known = first == 0x11 || first == 0x21 || first == 0x22 || first == 0x12;
  return is_known && !is_rgb && sampling(1) == 0x11 && sampling(2) == 0x11;
}

bool is_for_engines(File file, const Header& header) {
  const Shape& stored = header.stored;
  const std::optional<Scan> scan = first_scan(file);
  return scan && scan->components == stored[2] && header.process == kBaseline && header.bits == 8 &&
         header.orientation == kAsStored && stored[0] > 0 && stored[1] > 0 &&
         stored[0] * stored[1] <= kMostEnginePixels && is_usual(file, header) &&
         runs_to_its_end(file.subspan(scan->data), scan->has_restarts);
}

}  // namespace

std::optional<Shape> shape_for_engines(File file) {
  if (file.size() < 4 || u16_at(file, 0) != 0xffd8) return std::nullopt;
  try {
    const Header header = read_header(file);
    if (is_for_engines(file, header)) return Shape{header.stored[0], header.stored[1]};
  } catch (const Error&) {  // the CPU's decoder reports this error
  }
  return std::nullopt;
}

}  // namespace slipstream::jpeg
