#include "datasets/pax.h"

#include <algorithm>
#include <charconv>

#include "core/bytes.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kMaxNumber = (std::uint64_t{1} << 63) - 1;

std::optional<std::uint64_t> number(std::string_view digits, int base) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end || value > kMaxNumber) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> binary_number(std::span<const std::byte> field) {
  constexpr std::uint32_t kMark = 0x80;
  if (u8_at(field, 0) != kMark) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 1; i < field.size(); ++i) {
    // The next shift would overflow.
    if (value > kMaxNumber >> 8) return std::nullopt;
    value = value << 8 | u8_at(field, i);
  }
  return value;
}

}  // namespace

std::optional<std::uint64_t> tar_number(std::span<const std::byte> field) {
  if (u8_at(field, 0) >= 0x80) return binary_number(field);
  std::string_view text(reinterpret_cast<const char*>(field.data()), field.size());
  text = text.substr(0, text.find('\0'));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  return text.empty() ? 0 : number(text, 8);
}

std::optional<std::uint64_t> decimal_number(std::string_view text) { return number(text, 10); }

std::optional<PaxRecord> next_pax_record(std::string_view& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto length = decimal_number(text.substr(0, space));
  if (!length || *length > text.size() || *length < space + 3) return std::nullopt;
  const std::string_view record = text.substr(space + 1, *length - space - 2);
  const std::size_t equals = record.find('=');
  if (text[*length - 1] != '\n' || equals == 0 || equals == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(*length);
  return PaxRecord{record.substr(0, equals), record.substr(equals + 1)};
}

}  // namespace slipstream
