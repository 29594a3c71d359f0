#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace slipstream {

inline std::vector<std::string> list_keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

}  // namespace slipstream
