#include "report/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "datasets/skipped_json.h"

namespace slipstream {
namespace {

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print(const Json& json, const std::string& indent, std::string& out) {
  if (!json.is_structured()) {
    out += dumped(json);
    return;
  }
  bool nested = false;
  for (const Json& item : json) nested |= item.is_structured();
  const std::string deeper = nested ? indent + "  " : "";
  const std::string open = nested ? "\n" : "";
  const std::string next = nested ? ",\n" : ", ";
  bool first = true;
  out += json.is_array() ? '[' : '{';
  for (const auto& item : json.items()) {
    out += (first ? open : next) + deeper;
    if (json.is_object()) out += dumped(item.key()) + ": ";
    print(item.value(), deeper, out);
    first = false;
  }
  if (nested) out += "\n" + indent;
  out += json.is_array() ? ']' : '}';
}

Json to_json(const GpuInfo& gpu) {
  return {{"name", gpu.name},
          {"driver", gpu.driver},
          {"runtime", gpu.runtime},
          {"compute_capability", gpu.compute_capability},
          {"memory_bytes", gpu.memory_bytes}};
}

}  // namespace

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json number(float value) {
  if (!std::isfinite(value)) return nullptr;
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  // A float converted to double prints as many digits as a double. Parsing its shortest decimal
  // gives the double that prints with few digits.
  double shortest = value;
  std::from_chars(buffer.data(), end.ptr, shortest);
  return shortest;
}

Json to_json(const Measured& measured) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const bool observed = measured.n > 0;
  return {{"value", number(observed ? measured.value : kUnknown)},
          {"low", number(observed ? measured.low : kUnknown)},
          {"high", number(observed ? measured.high : kUnknown)},
          {"unit", measured.unit},
          {"n", measured.n}};
}

Json to_json(const Environment& environment) {
  return {{"time", environment.time},
          {"slipstream", environment.slipstream},
          {"revision", environment.revision},
          {"compiler", environment.compiler},
          {"libtorch", environment.libtorch},
          {"os", environment.os},
          {"cpu",
           {{"model", environment.cpu},
            {"logical_cores", environment.logical_cores},
            {"memory_bytes", environment.memory_bytes}}},
          {"gpu", environment.gpu ? to_json(*environment.gpu) : Json(nullptr)},
          {"warnings", environment.warnings}};
}

Json to_json(const WorkloadInfo& workload) {
  Json options = Json::object();
  for (const auto& [name, option] : workload.options)
    options[name] = std::visit([](const auto& value) { return Json(value); }, option);
  return {{"name", workload.name}, {"options", std::move(options)}};
}

Json to_json(const SkippedSamples& skipped) {
  return {{"replacements", skipped.replacements},
          {"samples", to_json(skipped.samples)},
          {"tolerated", to_json(skipped.tolerated)}};
}

Json to_json(const CacheCounters& cache) {
  return {{"samples", cache.samples},
          {"bytes", cache.bytes},
          {"hits", cache.hits},
          {"misses", cache.misses},
          {"is_filling", cache.is_filling}};
}

Json to_json(const DiskCacheState& cache) {
  return {{"bytes", cache.bytes},
          {"hits", cache.hits},
          {"misses", cache.misses},
          {"stored", cache.stored},
          {"stop_reason", cache.stop_reason.empty() ? Json(nullptr) : Json(cache.stop_reason)}};
}

Json to_json(const LaneResult& lane) {
  const auto convert = [](const Interval& interval) -> Json {
    return {{"step", interval.step},
            {"begin_s", number(interval.begin_s)},
            {"end_s", number(interval.end_s)}};
  };
  return {{"name", lane.name},
          {"steps", lane.steps},
          {"busy_s", number(lane.busy_s)},
          {"waiting_s", number(lane.waiting_s)},
          {"last_intervals", json_list(lane.last_intervals, convert)}};
}

Json to_json(const StepCounter& step) {
  return {{"name", step.name},
          {"calls", step.calls},
          {"wall_s", number(step.wall_s)},
          {"cpu_s", number(step.cpu_s)},
          {"bytes", step.bytes}};
}

Json words_or_null(const std::string& words) { return words.empty() ? Json() : Json(words); }

double to_number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Measured parse_measured(const Json& json) {
  return {to_number(json.at("value")), to_number(json.at("low")), to_number(json.at("high")),
          json.at("unit").get<std::string>(), json.at("n").get<std::size_t>()};
}

std::string printed(const Json& json) {
  std::string out;
  print(json, "", out);
  return out + "\n";
}

}  // namespace slipstream
