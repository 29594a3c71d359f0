#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "slipstream/core/statistics.h"

namespace slipstream {

/// `value` with this many decimals; "-" when it is not finite.
std::string fixed(double value, int decimals);
/// Decimals that show `value` with this many significant digits (at least none).
int decimals_for(double value, int digits);
/// Of a loss, with four significant digits at most; "-" when it is not known.
std::string loss_figure(double loss);
/// As fixed(), but three significant digits, "1.00e+300", of numbers of 1e7 and more.
std::string compact(double value, int decimals);
/// "472.1 [470.0, 474.2]": this many significant digits; the bounds only where they are known; "-"
/// where nothing was observed.
std::string with_interval(const Measured& measured, int digits = 4);

/// Columns as wide as their widest cell, two blanks apart; no blanks at the ends of lines. The
/// first row is the head. Columns named in `right` are aligned to the right.
/// Cells become printable_name().
std::string aligned_table(std::vector<std::vector<std::string>> rows,
                          const std::vector<std::size_t>& right);

}  // namespace slipstream
