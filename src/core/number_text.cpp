#include "core/number_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/byte_size.h"
#include "slipstream/core/error.h"

namespace slipstream {

std::string format_count(std::uint64_t count, std::string_view thing) {
  const std::string_view ending =
      (thing.ends_with("ch") && thing != "epoch") || thing.ends_with("s") ? "es" : "s";
  return std::to_string(count) + " " + std::string(thing) + std::string(count == 1 ? "" : ending);
}

std::string rounded_text(double value, int digits) {
  if (std::isnan(value)) return "nan";
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, digits);
  return {text.data(), end.ptr};
}

std::string size_text(double bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  constexpr double kUnit = 1024;
  constexpr int kDigits = 3;
  if (!(bytes >= 0) || std::isinf(bytes)) return "-";
  const double whole = std::round(bytes);
  if (whole < kUnit) return format_count(static_cast<std::uint64_t>(whole), "byte");
  double size = whole / kUnit;
  std::size_t unit = 0;
  // Three digits would round 999.5 and more to "1e+03", so the next unit begins there.
  for (; size >= 999.5 && unit + 1 < kUnits.size(); ++unit) size /= kUnit;
  return rounded_text(size, kDigits) + " " + kUnits[unit];
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::optional<std::size_t> size_in(std::string size) {
  constexpr std::string_view kSuffixes = "KMGT";
  const bool is_binary = size.ends_with("iB");
  if (size.ends_with('B')) size.resize(size.size() - (is_binary ? 2 : 1));
  const std::size_t power = size.empty() ? std::string_view::npos : kSuffixes.find(size.back());
  const bool has_suffix = power != std::string_view::npos;
  if (has_suffix) size.pop_back();
  const auto number = number_in(size);
  if (!number || (is_binary && !has_suffix)) return std::nullopt;
  const double bytes = *number * std::pow(1024.0, has_suffix ? power + 1 : 0);
  if (!(bytes >= 1 && bytes < 0x1p62)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

std::pair<std::string, std::size_t> named_size(const std::string& option, const std::string& text) {
  const std::string given = option.empty() ? text : option + " " + text;
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Refused(given + ": give a name and a size, for example NAME=8G");
  const std::string size = text.substr(equals + 1);
  if (const auto bytes = size_in(size)) return {text.substr(0, equals), *bytes};
  throw Refused(given + ": '" + size +
                "' is not a size: give bytes, or a number of K, M, G or T (powers of 1024), for "
                "example " +
                text.substr(0, equals) + "=8G");
}

}  // namespace slipstream
