#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/report.h"

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
Json json_of(const SkippedSamples& skipped);
Json json_of(const CacheCounters& cache);
Json json_of(const DiskCacheState& cache);
Json json_of(const LaneResult& lane);
Json json_of(const StepCounter& step);

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : Json(nullptr);
}

/// A list of the results of `convert` for each of `values`.
template <typename T, typename Convert>
Json json_list(const std::vector<T>& values, Convert convert) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(convert(value));
  return list;
}
template <typename T>
Json json_list(const std::vector<T>& values) {
  return json_list(values, [](const T& value) { return json_of(value); });
}

/// null for "".
Json words_or_null(const std::string& words);

/// NaN for null.
double number_of(const Json& json);
/// What json_of(Measured) made; NaN for null. Throws Json::exception for anything else.
Measured measured_of(const Json& json);

/// Indented; lists and objects without others in them stand on one line. Bytes that are not UTF-8
/// are replaced.
std::string printed(const Json& json);

}  // namespace slipstream
