#pragma once

#include <algorithm>
#include <vector>

#include "report/report.h"

namespace slipstream {

/// Whether some transforms were done by the device, so that rows must say where theirs were.
inline bool tells_placement(const std::vector<BenchRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const BenchRow& row) {
    return row.transforms_device == "gpu" || row.transforms_device == "pipelined";
  });
}

}  // namespace slipstream
