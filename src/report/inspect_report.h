#pragma once

#include <string>
#include <vector>

#include "tools/inspect.h"

namespace slipstream {

/// Results of `inspect`.
struct InspectReport {
  std::string data;
  Inspection found;
  std::vector<std::string> changed;  ///< result of check_converted()
};

/// Returns JSON with every damaged sample and every change (docs/run-report.md).
std::string inspect_report_json(const InspectReport& report);

}  // namespace slipstream
