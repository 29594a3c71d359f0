#include "data/bytes.h"
#include "data/jpeg.h"
#include "slipstream/error.h"

namespace slipstream::jpeg {
namespace {

constexpr std::uint32_t kHuffmanTables = 0xc4;
constexpr std::uint32_t kReserved = 0xc8;
constexpr std::uint32_t kArithmeticTables = 0xcc;
constexpr std::uint32_t kEndOfImage = 0xd9;
constexpr std::uint32_t kStartOfScan = 0xda;

bool is_frame(std::uint32_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != kHuffmanTables && marker != kReserved &&
         marker != kArithmeticTables;
}

bool has_no_length(std::uint32_t marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

[[noreturn]] void refuse(const char* what) {
  throw Error(std::string("broken JPEG: ") + what + "; replace or remove the file");
}

}  // namespace

Shape shape(std::span<const std::byte> file) {
  constexpr std::size_t kFrameBytes = 8;
  std::size_t at = 2;
  const auto need = [&](std::size_t bytes) {
    if (file.size() - at < bytes) refuse("it ends within its header");
  };
  while (true) {
    need(2);
    if (u8_at(file, at) != 0xff) refuse("there is no marker where one should be");
    const std::uint32_t marker = u8_at(file, at + 1);
    if (marker == 0xff) {
      ++at;
      continue;
    }
    at += 2;
    if (has_no_length(marker)) continue;
    if (marker == kStartOfScan || marker == kEndOfImage) refuse("it has no frame header");
    need(2);
    const std::size_t length = u16_at(file, at);
    need(length);
    if (!is_frame(marker)) {
      if (length < 2) refuse("a marker has an impossible length");
      at += length;
      continue;
    }
    if (length < kFrameBytes) refuse("its frame header is too short");
    return {u16_at(file, at + 3), u16_at(file, at + 5), u8_at(file, at + 7)};
  }
}

}  // namespace slipstream::jpeg
