#pragma once

#include <string>

#include "report/metrics_table.h"

namespace slipstream {

/// An SVG drawing of a run's values over its steps, which loads nothing from anywhere and is light
/// or dark as its reader likes it. Names that agree behind their first "/" share a panel, and those
/// that agree before it a color. Values that are not finite, and those beyond 1e100, are left out.
/// Where many rows lie on one pixel, the lowest and the highest value of them are drawn.
std::string curves_svg(const MetricsTable& table, const std::string& title);

}  // namespace slipstream
