#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "slipstream/report.h"

namespace slipstream {

using Json = nlohmann::ordered_json;

/// null unless finite.
Json number(double value);
/// As the shortest decimal that gives this float; null unless finite.
Json number(float value);
/// {"value", "low", "high", "unit", "n"}; all values null where nothing was observed.
Json json_of(const Measured& measured);
Json json_of(const Environment& environment);
Json json_of(const WorkloadInfo& workload);
Json json_of(const CacheCounters& cache);
Json json_of(const DiskCacheState& cache);

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : Json(nullptr);
}

/// Indented; lists and objects without others in them stand on one line. Bytes that are not UTF-8
/// are replaced.
std::string printed(const Json& json);

}  // namespace slipstream
