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
Json to_json(const Measured& measured);
Json to_json(const Environment& environment);
Json to_json(const WorkloadInfo& workload);
Json to_json(const SkippedSamples& skipped);
Json to_json(const CacheCounters& cache);
Json to_json(const DiskCacheState& cache);
Json to_json(const LaneResult& lane);
Json to_json(const StepCounter& step);

template <typename T>
Json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : Json(nullptr);
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
  return json_list(values, [](const T& value) { return to_json(value); });
}

/// null for "".
Json words_or_null(const std::string& words);

/// NaN for null.
double to_number(const Json& json);
/// What to_json(Measured) made; NaN for null. Throws Json::exception for anything else.
Measured parse_measured(const Json& json);

/// Indented; lists and objects without others in them stand on one line. Bytes that are not UTF-8
/// are replaced.
std::string printed(const Json& json);

}  // namespace slipstream
