#include "codecs/jpeg_header.h"

#include <cstring>
#include <string>

#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream::jpeg {
namespace {

constexpr std::uint32_t kExifSegment = 0xe1;
constexpr std::uint32_t kFirstRestart = 0xd0;
constexpr std::uint32_t kHuffmanTables = 0xc4;
constexpr std::uint32_t kReserved = 0xc8;
constexpr std::uint32_t kArithmeticTables = 0xcc;

bool is_frame(std::uint32_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != kHuffmanTables && marker != kReserved &&
         marker != kArithmeticTables;
}

bool has_no_length(std::uint32_t marker) {
  // The markers TEM and RST0 to RST7.
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

/// Returns the offset after the next marker at or after `at`, or the size of the file if there is
/// none. Skips other bytes, as libjpeg does with a warning.
std::size_t after_next_marker(std::span<const std::byte> file, std::size_t at) {
  while (at < file.size()) {
    const void* const found = std::memchr(file.data() + at, 0xff, file.size() - at);
    if (found == nullptr) break;
    at = static_cast<std::size_t>(static_cast<const std::byte*>(found) - file.data());
    while (at < file.size() && u8_at(file, at) == 0xff) ++at;
    if (at < file.size() && u8_at(file, at++) != 0) return at;
  }
  return file.size();
}

[[noreturn]] void refuse(const char* what) {
  throw Error(std::string("broken JPEG: ") + what + "; replace or remove the file");
}

[[noreturn]] void refuse_kind(const std::string& kind) {
  throw Error("this JPEG is " + kind +
              ", which libjpeg-turbo cannot decode; convert it to 8 bits, " +
              "baseline or progressive");
}

}  // namespace

Shape Header::shape() const {
  if (!swaps_sides(orientation)) return stored;
  return {stored[1], stored[0], stored[2]};
}

Header read_header(std::span<const std::byte> file) {
  constexpr std::size_t kFrameBytes = 8;
  Header header;
  bool has_exif = false;
  std::size_t at = 2;
  const auto need = [&](std::size_t bytes) {
    if (file.size() - at < bytes) refuse("it ends inside its header");
  };
  while (true) {
    at = after_next_marker(file, at);
    need(1);
    const std::uint32_t marker = u8_at(file, at - 1);
    if (has_no_length(marker)) continue;
    if (marker == kStartOfScan || marker == kEndOfImage) refuse("it has no frame header");
    need(2);
    const std::size_t length = u16_at(file, at);
    need(length);
    if (!is_frame(marker)) {
      if (length < 2) refuse("a marker has an impossible length");
      // Only the first EXIF segment counts, and XMP uses the same marker.
      if (marker == kExifSegment && !has_exif) {
        const auto segment = file.subspan(at + 2, length - 2);
        has_exif = is_exif(segment);
        header.orientation = exif_orientation(segment);
      }
      at += length;
      continue;
    }
    if (length < kFrameBytes) refuse("its frame header is too short");
    header.stored = {u16_at(file, at + 3), u16_at(file, at + 5), u8_at(file, at + 7)};
    header.bits = u8_at(file, at + 2);
    header.process = marker;
    header.components = at + kFrameBytes;
    return header;
  }
}

void require_decodable(const Header& header) {
  // 0xc0 to 0xc2 are baseline, extended sequential and progressive with Huffman coding, 0xc9 and
  // 0xca sequential and progressive with arithmetic coding.
  switch (header.process) {
    case 0xc0:
    case 0xc1:
    case 0xc2:
    case 0xc9:
    case 0xca:
      break;
    case 0xc3:
    case 0xcb:
      refuse_kind("lossless");
    default:
      refuse_kind("hierarchical");
  }
  if (header.bits != 8) refuse_kind("of " + std::to_string(header.bits) + " bits per channel");
}

bool runs_to_its_end(std::span<const std::byte> data, bool has_restarts) {
  std::uint32_t restarts = 0;
  std::size_t at = 0;
  while (at < data.size()) {
    const void* const found = std::memchr(data.data() + at, 0xff, data.size() - at);
    if (found == nullptr) return false;
    at = static_cast<std::size_t>(static_cast<const std::byte*>(found) - data.data()) + 1;
    const std::size_t after = at;
    while (at < data.size() && u8_at(data, at) == 0xff) ++at;
    if (at == data.size()) return false;
    const std::uint32_t marker = u8_at(data, at++);
    // Byte stuffing: 0xff 0x00 encodes a data byte 0xff.
    if (marker == 0 && at == after + 1) continue;
    if (marker == kEndOfImage) return true;
    if (!has_restarts || marker != kFirstRestart + restarts++ % 8) return false;
  }
  return false;
}

}  // namespace slipstream::jpeg
