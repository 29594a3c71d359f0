#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {

/// The names of an enumeration's values, as options, plans and reports have them.
template <typename E, std::size_t N>
using EnumNames = std::array<std::pair<E, std::string_view>, N>;

template <typename E, std::size_t N>
std::string_view enum_name(const EnumNames<E, N>& names, E value) {
  for (const auto& [each, name] : names)
    if (each == value) return name;
  ensure(false, "every enumerator has a name");
  return {};
}

/// Returns the enumerator called `name`. Throws Refused for another name; `kind` says what it
/// names, such as "precision".
template <typename E, std::size_t N>
E enum_named(const EnumNames<E, N>& names, std::string_view kind, std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [value, known_name] : names) {
    if (known_name == name) return value;
    known.emplace_back(known_name);
  }
  throw Refused(unknown_name(kind, name, known));
}

}  // namespace slipstream
