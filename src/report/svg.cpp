#include "report/svg.h"

#include <cmath>

#include "report/markup.h"
#include "report/text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + escaped(value) + "\"";
}

std::string attribute(std::string_view name, double value) {
  return attribute(name, fixed(value, 1));
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title, std::string_view description,
         std::string_view style)
    : body_("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" + attribute("width", width) +
            attribute("height", height) +
            attribute("viewBox", "0 0 " + fixed(width, 1) + " " + fixed(height, 1)) + ">\n<title>" +
            escaped(title) + "</title>\n<desc>" + escaped(description) + "</desc>\n<style>" +
            std::string(style) + "</style>\n") {}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += "<line" + attribute("class", css_class) + attribute("x1", x1) + attribute("y1", y1) +
           attribute("x2", x2) + attribute("y2", y2) + "/>\n";
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points,
                   std::string_view css_class) {
  std::string list;
  for (const auto& [x, y] : points)
    list += (list.empty() ? "" : " ") + fixed(x, 1) + "," + fixed(y, 1);
  body_ += "<polyline" + attribute("class", css_class) + attribute("points", list) + "/>\n";
}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class,
               std::string_view tooltip) {
  body_ += "<rect" + attribute("class", css_class) + attribute("x", x) + attribute("y", y) +
           attribute("width", width) + attribute("height", height);
  close("rect", tooltip);
}

void Svg::circle(double x, double y, double radius, std::string_view css_class,
                 std::string_view tooltip) {
  body_ += "<circle" + attribute("class", css_class) + attribute("cx", x) + attribute("cy", y) +
           attribute("r", radius);
  close("circle", tooltip);
}

void Svg::text(double x, double y, std::string_view words, std::string_view css_class,
               std::string_view anchor) {
  body_ += "<text" + attribute("class", css_class) + attribute("x", x) + attribute("y", y) +
           attribute("text-anchor", anchor) + ">" + escaped(words) + "</text>\n";
}

void Svg::close(std::string_view element, std::string_view tooltip) {
  if (tooltip.empty()) {
    body_ += "/>\n";
  } else {
    body_ += "><title>" + escaped(tooltip) + "</title></" + std::string(element) + ">\n";
  }
}

std::vector<double> nice_ticks(double low, double high, int count) {
  ensure(low < high && std::isfinite(high - low) && count > 0, "an axis has a length");
  const double rough = (high - low) / count;
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double factor : {5.0, 2.5, 2.0, 1.0})
    if (factor * magnitude >= rough) step = factor * magnitude;
  const auto first = std::llround(std::floor(low / step + 1e-9));
  const auto last = std::llround(std::ceil(high / step - 1e-9));
  std::vector<double> ticks;
  for (auto i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

}  // namespace slipstream
