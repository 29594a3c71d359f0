#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// "a, b, c".
inline std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

}  // namespace slipstream
