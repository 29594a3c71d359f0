#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace slipstream {

/// Returns the JSON in the data element of a page.
inline nlohmann::ordered_json page_data(const std::string& page) {
  const std::string start = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(start) + start.size();
  return nlohmann::ordered_json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

}  // namespace slipstream
