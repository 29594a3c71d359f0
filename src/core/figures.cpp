#include "core/figures.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/number_text.h"
#include "slipstream/core/error.h"

namespace slipstream {

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  // The largest double has 309 digits before the decimal point.
  std::array<char, 512> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, decimals);
  return {buffer.data(), end.ptr};
}

int decimals_for(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return std::max(0, digits - 1);
  const int before_point = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return std::clamp(digits - before_point, 0, 12);
}

std::string loss_figure(double loss) { return std::isnan(loss) ? "-" : rounded_text(loss, 4); }

std::string compact(double value, int decimals) {
  constexpr double kLong = 1e7;
  constexpr int kDigits = 3;
  if (!std::isfinite(value) || std::abs(value) < kLong) return fixed(value, decimals);
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific, kDigits - 1);
  return {buffer.data(), end.ptr};
}

std::string with_interval(const Measured& measured, int digits) {
  if (measured.n == 0) return "-";
  const int decimals = decimals_for(measured.value, digits);
  std::string value = compact(measured.value, decimals);
  if (!std::isfinite(measured.low) || !std::isfinite(measured.high)) return value;
  return value + " [" + compact(measured.low, decimals) + ", " + compact(measured.high, decimals) +
         "]";
}

std::string aligned_table(std::vector<std::vector<std::string>> rows,
                          const std::vector<std::size_t>& right) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable_name(cell);
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      const bool to_right = std::find(right.begin(), right.end(), i) != right.end();
      line += (i == 0 ? "" : "  ") + (to_right ? blanks + row[i] : row[i] + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace slipstream
