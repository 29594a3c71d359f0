#pragma once

#include <string>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {

/// Calls all of `checks` and throws one Refused with what those of them say that throw one, a line
/// each.
template <typename... Check>
void require_all(const Check&... checks) {
  std::vector<std::string> problems;
  const auto run = [&problems](const auto& check) {
    try {
      check();
    } catch (const Refused& problem) {
      problems.emplace_back(problem.what());
    }
  };
  (run(checks), ...);
  refuse(problems);
}

}  // namespace slipstream
