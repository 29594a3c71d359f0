#pragma once

#include <string>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {

/// Calls all `checks` and throws one Refused that joins the messages of all Refused that they
/// threw, one per line.
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
