#pragma once

#include <string>
#include <vector>

#include "core/environment.h"
#include "loader/loader_bench.h"

namespace slipstream {

/// What `bench loader` measured.
struct LoaderReport {
  Environment environment;
  std::string data;
  std::string transforms;  ///< a file; "": a resize to image_size
  std::size_t batch_size = 0;
  std::int64_t image_size = 0;
  std::vector<LoaderRate> rates;
};

/// docs/run-report.md describes it.
std::string loader_report_json(const LoaderReport& report);

/// A row for each number of workers: rate, speed-up and share of perfect scaling against the fewest
/// workers measured, each host step's time a sample, and which share of samples came from a cache,
/// where there is one; then how many workers are enough, where more were measured, and the
/// environment's warnings.
std::string loader_table(const LoaderReport& report);

}  // namespace slipstream
