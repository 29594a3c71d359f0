#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipstream {

/// Builds an SVG drawing. Looks come from CSS classes; coordinates are pixels from the top left.
class Svg {
 public:
  /// `title` and `description` are for screen readers.
  Svg(double width, double height, std::string_view title, std::string_view description,
      std::string_view style);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class);
  /// `tooltip` is shown under the pointer; may be empty.
  void rect(double x, double y, double width, double height, std::string_view css_class,
            std::string_view tooltip = {});
  void circle(double x, double y, double radius, std::string_view css_class,
              std::string_view tooltip = {});
  /// `anchor`: "start", "middle" or "end".
  void text(double x, double y, std::string_view words, std::string_view css_class,
            std::string_view anchor = "start");

  std::string finished() const { return body_ + "</svg>\n"; }

 private:
  void close(std::string_view element, std::string_view tooltip);

  std::string body_;
};

/// Round numbers, about `count` of them, from at or below `low` to at or above `high`.
/// REQUIRES: low < high, both finite
std::vector<double> nice_ticks(double low, double high, int count);

}  // namespace slipstream
