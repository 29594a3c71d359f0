#include "report/markup.h"

#include "slipstream/core/error.h"

namespace slipstream {

std::string escaped(std::string_view words) {
  std::string result;
  for (const char c : printable(words)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string element(std::string_view name, std::string_view css_class, std::string_view inner) {
  std::string markup = "<";
  markup.append(name);
  if (!css_class.empty()) markup.append(" class=\"").append(css_class).append("\"");
  return markup.append(">").append(inner).append("</").append(name).append(">");
}

}  // namespace slipstream
