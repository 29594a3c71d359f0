#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/report.h"

namespace slipstream {

using Json = nlohmann::ordered_json;

/// Returns null unless the number is finite.
Json number(double value);
/// Returns the shortest decimal that parses to this float, or null unless it is finite.
Json number(float value);
/// Returns {"value", "low", "high", "unit", "n"}. The three numbers are null if nothing was
/// measured.
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

/// Returns a list with the result of `convert` for each of `values`.
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

/// Returns null for "".
Json words_or_null(const std::string& words);

/// Converts null to NaN.
double to_number(const Json& json);
/// Parses the output of to_json(Measured), with NaN for null. Throws Json::exception for anything
/// else.
Measured parse_measured(const Json& json);

/// Formats JSON with indentation. Lists and objects without nested ones are on one line. Bytes that
/// are not UTF-8 are replaced.
std::string printed(const Json& json);

}  // namespace slipstream
