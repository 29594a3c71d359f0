#include "report/page.h"

#include <string_view>

#include "report/page_template.h"
#include "slipstream/core/error.h"

namespace slipstream {

std::string script_json(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  // In JSON these characters occur only in strings, where an escape has the same meaning.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
      safe += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (text[i] == '<') {
      safe += "\\u003c";
    } else if (text[i] == '>') {
      safe += "\\u003e";
    } else if (text[i] == '&') {
      safe += "\\u0026";
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string page_html(const Json& data) {
  constexpr std::string_view kMark = "PAGE_DATA";
  std::string page = kPageTemplate;
  const std::size_t at = page.find(kMark);
  ensure(at != std::string::npos, "the template has a place for its data");
  return page.replace(at, kMark.size(), script_json(data));
}

}  // namespace slipstream
