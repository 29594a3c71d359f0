#pragma once

#include <string>
#include <vector>

#include "tools/inspect.h"

namespace slipstream {

/// What `inspect` found.
struct InspectReport {
  std::string data;
  Inspection found;
  std::vector<std::string> changed;  ///< of check_converted()
};

/// Every damaged sample and every change; docs/run-report.md describes it.
std::string inspect_report_json(const InspectReport& report);

}  // namespace slipstream
