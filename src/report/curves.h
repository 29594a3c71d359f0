#pragma once

#include <string>

#include "report/metrics_table.h"

namespace slipstream {

/// Returns a self-contained SVG drawing of a run's values over its steps, with a light and a dark
/// color scheme. Names with the same part after their first "/" share a panel, and those with the
/// same part before it share a color. Values that are not finite or beyond 1e100 are omitted. If
/// many rows are in one pixel column, only the lowest and the highest value are drawn.
std::string curves_svg(const MetricsTable& table, const std::string& title);

}  // namespace slipstream
