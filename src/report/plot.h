#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace slipstream {

inline constexpr std::size_t kPlotColors = 6;  ///< the first is for what others are held against

inline constexpr double kPlotWidth = 880;
inline constexpr double kLetterWidth = 6.6;  ///< of a label's, about

/// Looks that drawn plots share, light or dark as their reader likes it: texts of the classes
/// title, label, note and tick, a page, a grid, an axis; fN fills with color N, lN draws lines in
/// it.
inline constexpr std::string_view kPlotStyle = R"(
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 17px; font-weight: 600; }
.note, .tick { fill: #57606a; }
.page { fill: #ffffff; }
.grid { stroke: #e1e4e8; }
.axis { stroke: #8c959f; }
.f0 { fill: #8c959f; } .f1 { fill: #0072b2; } .f2 { fill: #d98200; }
.f3 { fill: #009e73; } .f4 { fill: #c05c96; } .f5 { fill: #7a5cc0; }
.l0, .l1, .l2, .l3, .l4, .l5 { fill: none; stroke-width: 2; }
.l0 { stroke: #8c959f; } .l1 { stroke: #0072b2; } .l2 { stroke: #d98200; }
.l3 { stroke: #009e73; } .l4 { stroke: #c05c96; } .l5 { stroke: #7a5cc0; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note, .tick { fill: #9aa4ae; }
  .page { fill: #0d1117; }
  .grid { stroke: #262c34; }
  .axis { stroke: #7d8590; }
  .f0 { fill: #7d8590; } .f1 { fill: #4aa8e0; } .f2 { fill: #f0a840; }
  .f3 { fill: #35c495; } .f4 { fill: #e08cc0; } .f5 { fill: #a48ae8; }
  .l0 { stroke: #7d8590; } .l1 { stroke: #4aa8e0; } .l2 { stroke: #f0a840; }
  .l3 { stroke: #35c495; } .l4 { stroke: #e08cc0; } .l5 { stroke: #a48ae8; }
}
)";

/// A vertical axis: values from ticks.front() at `bottom` to ticks.back() at `top`, pixels.
struct PlotAxis {
  double top;
  double bottom;
  std::vector<double> ticks;

  double y(double value) const {
    const double share = (value - ticks.front()) / (ticks.back() - ticks.front());
    return bottom - std::clamp(share, 0.0, 1.0) * (bottom - top);
  }
};

}  // namespace slipstream
