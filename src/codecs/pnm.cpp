#include "codecs/pnm.h"

#include <cmath>
#include <string>

#include "core/bytes.h"
#include "slipstream/core/error.h"

namespace slipstream::pnm {
namespace {

using File = std::span<const std::byte>;

constexpr std::uint32_t kMostMaximum = 65535;
constexpr std::uint32_t kMostSide = 1U << 30;

[[noreturn]] void refuse(const std::string& what) {
  throw Error("broken PNM: " + what + "; replace or remove the file");
}

bool is_blank(std::uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Reads decimal numbers that are separated by blanks and comments. A comment begins with # and
/// ends with its line.
class Numbers {
 public:
  Numbers(File file, std::size_t at) : file_(file), at_(at) {}

  std::uint32_t next(std::uint32_t most) {
    skip_blanks();
    const std::size_t first = at_;
    std::uint64_t value = 0;
    for (; at_ < file_.size() && is_digit(u8_at(file_, at_)); ++at_) {
      value = value * 10 + (u8_at(file_, at_) - '0');
      if (value > most) refuse("a number is above " + std::to_string(most));
    }
    if (at_ == file_.size() && at_ == first) refuse("it ends early");
    if (at_ == first) refuse("it has other characters where a number should be");
    return static_cast<std::uint32_t>(value);
  }
  std::size_t at() const { return at_; }

 private:
  static bool is_digit(std::uint32_t c) { return c >= '0' && c <= '9'; }

  void skip_blanks() {
    for (bool is_comment = false; at_ < file_.size(); ++at_) {
      const std::uint32_t c = u8_at(file_, at_);
      if (c == '#') is_comment = true;
      if (is_comment && (c == '\n' || c == '\r')) is_comment = false;
      if (!is_comment && !is_blank(c)) return;
    }
  }

  File file_;
  std::size_t at_;
};

struct Header {
  Shape shape;
  std::uint32_t maximum = 0;
  bool is_text = false;
  std::size_t data = 0;  ///< offset of the pixels
};

Header read_header(File file) {
  const std::uint32_t kind = u8_at(file, 1);
  Numbers numbers(file, 2);
  const std::uint32_t width = numbers.next(kMostSide);
  const std::uint32_t height = numbers.next(kMostSide);
  Header header;
  header.shape = {height, width, kind == '3' || kind == '6' ? 3 : 1};
  header.maximum = numbers.next(kMostMaximum);
  if (header.maximum == 0) refuse("its largest level is 0");
  header.is_text = kind == '2' || kind == '3';
  header.data = numbers.at() + (header.is_text ? 0 : 1);  // a single blank ends a binary header
  return header;
}

std::uint8_t scale_to_level(std::uint32_t value, std::uint32_t maximum) {
  if (value > maximum) refuse("a level is above " + std::to_string(maximum));
  if (maximum == 255) return static_cast<std::uint8_t>(value);
  // The order of these operations gives PIL's rounding.
  return static_cast<std::uint8_t>(std::nearbyint(value / static_cast<double>(maximum) * 255));
}

}  // namespace

bool starts(File file) {
  if (file.size() < 3 || u8_at(file, 0) != 'P') return false;
  const std::uint32_t kind = u8_at(file, 1);
  return (kind == '2' || kind == '3' || kind == '5' || kind == '6') && is_blank(u8_at(file, 2));
}

Shape shape(File file) { return read_header(file).shape; }

void decode(File file, const DecodeOptions&, const MutableArray& out) {
  const Header header = read_header(file);
  const std::size_t values = header.shape.elements();
  const std::size_t width = header.maximum > 255 ? 2 : 1;
  // Checked before pixels are read, because a damaged header can claim any size.
  if (!header.is_text &&
      (header.data > file.size() || (file.size() - header.data) / width < values))
    refuse("it ends early");
  Numbers numbers(file, header.data);
  std::size_t at = header.data;
  const auto next = [&] {
    if (header.is_text) return numbers.next(kMostMaximum);
    const std::uint32_t value = width == 2 ? u16_at(file, at) : u8_at(file, at);
    at += width;
    return value;
  };
  const std::size_t copies = header.shape[2] == 1 ? 3 : 1;
  auto* to = out.as<std::uint8_t>();
  for (std::size_t i = 0; i < values; ++i) {
    const std::uint8_t level = scale_to_level(next(), header.maximum);
    for (std::size_t k = 0; k < copies; ++k) *to++ = level;
  }
}

}  // namespace slipstream::pnm
