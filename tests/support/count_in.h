#pragma once

#include <cstddef>
#include <string>

namespace slipstream {

/// Returns how often `part` occurs in `text`.
inline std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace slipstream
