#pragma once

#include <string>
#include <vector>

#include "core/environment.h"
#include "loader/loader_bench.h"

namespace slipstream {

/// Results of `bench loader`.
struct LoaderReport {
  Environment environment;
  std::string data;
  std::string transforms;  ///< a file, or "" for a resize to image_size
  std::size_t batch_size = 0;
  std::int64_t image_size = 0;
  std::vector<LoaderRate> rates;
};

/// Returns JSON (docs/run-report.md).
std::string loader_report_json(const LoaderReport& report);

/// Returns a table with a row for each number of workers: rate, speedup and share of perfect
/// scaling relative to the smallest number measured, each host step's time per sample, and the
/// share of samples that a cache served, if there is one. Then follow how many workers are enough,
/// if more were measured, and the environment's warnings.
std::string loader_table(const LoaderReport& report);

}  // namespace slipstream
