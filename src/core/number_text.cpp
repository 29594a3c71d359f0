#include "core/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

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

}  // namespace slipstream
