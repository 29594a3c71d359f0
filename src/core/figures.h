#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "slipstream/core/statistics.h"

namespace slipstream {

/// Formats `value` with `decimals` decimals, or "-" if it is not finite.
std::string fixed(double value, int decimals);
/// Returns the number of decimals (at least 0) that shows `value` with `digits` significant digits.
int decimals_for(double value, int digits);
/// Formats a loss with at most four significant digits, or "-" if it is unknown (NaN).
std::string loss_figure(double loss);
/// Like fixed(), but numbers from 1e7 on are shown with three significant digits, such as
/// "1.00e+300".
std::string compact(double value, int decimals);
/// Formats a value and its interval with `digits` significant digits, such as "472.1 [470.0,
/// 474.2]". Omits the bounds if they are not finite. Returns "-" if nothing was observed.
std::string with_interval(const Measured& measured, int digits = 4);

/// Formats rows as a text table. The first row is the header. Columns are as wide as their widest
/// cell and two blanks apart, without trailing blanks. Columns whose index is in `right` are
/// right-aligned. Cells are passed through printable_name().
std::string aligned_table(std::vector<std::vector<std::string>> rows,
                          const std::vector<std::size_t>& right);

}  // namespace slipstream
