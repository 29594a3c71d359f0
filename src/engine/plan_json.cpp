#include <algorithm>
#include <concepts>
#include <limits>
#include <utility>

#include "core/json_fields.h"
#include "loader/plan_limits.h"
#include "slipstream/engine/plan.h"

namespace slipstream {
namespace {

using json::Json;
using json::Problems;
using json::take;

constexpr int kPlanVersion = 1;

std::string to_string(Driver driver) {
  return driver == Driver::threaded ? "threaded" : "interleaved";
}

// Declared before the templates that call them, because argument-dependent lookup does not search
// unnamed namespaces.
void take(const Json& value, const std::string& path, LanePlan& out, Problems& problems);
void take(const Json& value, const std::string& path, LoaderPlan& out, Problems& problems);
void take(const Json& value, const std::string& path, ReadAhead& out, Problems& problems);
void take(const Json& value, const std::string& path, CpuList& out, Problems& problems);
void take(const Json& value, const std::string& path, std::optional<CacheOptions>& out,
          Problems& problems);
void take(const Json& value, const std::string& path, Plan::Schedule& out, Problems& problems);
void take(const Json& value, const std::string& path, Plan::Numerics& out, Problems& problems);

template <std::unsigned_integral T>
void take_integer(const Json& value, const std::string& path, const std::string& range, T& out,
                  Problems& problems) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= std::numeric_limits<T>::max()) {
    out = value.get<T>();
  } else {
    json::must_be(path, "a whole number " + range, value, problems);
  }
}

template <std::unsigned_integral T>
void take(const Json& value, const std::string& path, T& out, Problems& problems) {
  // The limit is what check_count() in plan.cpp accepts, not the range of T.
  const bool threads = path.starts_with("numerics.intra_op_threads");
  const std::size_t most = threads ? kMostIntraOpThreads : kMostOfAnything;
  take_integer(value, path, "from 1 to " + std::to_string(most), out, problems);
}

void take(const Json& value, const std::string& path, int& out, Problems& problems) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  const bool negative = value.is_number_integer() && !value.is_number_unsigned();
  if (negative ? value.get<std::int64_t>() >= std::numeric_limits<int>::min()
               : value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost) {
    out = value.get<int>();
  } else {
    json::must_be(path, "a small whole number", value, problems);
  }
}

void take(const Json& value, const std::string& path, Driver& out, Problems& problems) {
  std::string name;
  const std::size_t before = problems.size();
  take(value, path, name, problems);
  if (problems.size() != before) return;
  std::vector<std::string> known;
  for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
    known.push_back(to_string(driver));
    if (known.back() != name) continue;
    out = driver;
    return;
  }
  problems.push_back(path + ": " + unknown_name("driver", name, known));
}

template <typename T>
void take_named(const Json& value, const std::string& path, T (*named)(const std::string&), T& out,
                Problems& problems) {
  std::string name;
  const std::size_t before = problems.size();
  take(value, path, name, problems);
  if (problems.size() != before) return;
  try {
    out = named(name);
  } catch (const Refused& unknown) {
    problems.push_back(path + ": " + unknown.what());
  }
}

void take(const Json& value, const std::string& path, Precision& out, Problems& problems) {
  take_named(value, path, precision_named, out, problems);
}

void take(const Json& value, const std::string& path, Wire& out, Problems& problems) {
  take_named(value, path, wire_named, out, problems);
}

template <typename T>
void take(const Json& value, const std::string& path, std::vector<T>& out, Problems& problems) {
  if (!value.is_array()) {
    json::must_be(path, "a list", value, problems);
    return;
  }
  out.resize(value.size());
  for (std::size_t i = 0; i < value.size(); ++i)
    take(value[i], path + "[" + std::to_string(i) + "]", out[i], problems);
}

template <typename T>
void take(const Json& value, const std::string& path, std::map<std::string, T>& out,
          Problems& problems) {
  if (!value.is_object()) {
    json::must_be(path, "an object", value, problems);
    return;
  }
  out.clear();
  const std::string prefix = path + ".";
  for (const auto& [key, item] : value.items()) take(item, prefix + key, out[key], problems);
}

class Fields : public json::Fields {
 public:
  Fields(const Json& value, const std::string& path, Problems& problems)
      : json::Fields(value, path, "this plan", problems) {}

  template <typename T>
  Fields& read(const std::string& key, T& out) {
    if (const Json* value = find(key)) take(*value, full_path(key), out, problems());
    return *this;
  }
};

/// Reads a whole number that may be 0.
template <std::unsigned_integral T>
void take_count(Fields& fields, const std::string& key, T& out, Problems& problems) {
  const Json* value = fields.find(key);
  if (value != nullptr)
    take_integer(*value, fields.full_path(key), "that is at least 0", out, problems);
}

void take(const Json& value, const std::string& path, LanePlan& out, Problems& problems) {
  Fields fields(value, path, problems);
  fields.read("steps", out.steps).read("priority", out.priority).refuse_others();
}

void take(const Json& value, const std::string& path, ReadAhead& out, Problems& problems) {
  Fields fields(value, path, problems);
  take_count(fields, "reads", out.reads, problems);
  take_count(fields, "chunk_bytes", out.chunk_bytes, problems);
  fields.refuse_others();
}

/// Reads a list of CPUs, which is a text such as "0-3,8" in JSON.
void take(const Json& value, const std::string& path, CpuList& out, Problems& problems) {
  take_named(
      value, path,
      +[](const std::string& text) { return text.empty() ? CpuList() : parse_cpu_list(text); }, out,
      problems);
}

void take(const Json& value, const std::string& path, std::optional<CacheOptions>& out,
          Problems& problems) {
  out.reset();
  if (value.is_null()) return;
  Fields fields(value, path, problems);
  fields.read("after", out.emplace().after);
  take_count(fields, "bytes", out->bytes, problems);
  fields.refuse_others();
}

void take(const Json& value, const std::string& path, LoaderPlan& out, Problems& problems) {
  Fields fields(value, path, problems);
  fields.read("num_workers", out.num_workers)
      .read("prefetch_batches", out.prefetch_batches)
      .read("pin_memory", out.pin_memory)
      .read("wire", out.wire)
      .read("read_ahead", out.read_ahead)
      .read("cpus", out.cpus)
      .read("cache", out.cache)
      .read("on_device", out.on_device)
      .refuse_others({{"prefetch_factor",
                       "prefetch_batches is the number for all workers together: PyTorch's "
                       "prefetch_factor times num_workers"}});
}

void take(const Json& value, const std::string& path, Plan::Schedule& out, Problems& problems) {
  Fields fields(value, path, problems);
  if (value.is_object() && !value.contains("lanes"))
    problems.push_back(fields.full_path("lanes") + " is missing: list the steps of each lane");
  fields.read("mode", out.mode)
      .read("lanes", out.lanes)
      .read("depth", out.depth)
      .read("run_ahead", out.run_ahead)
      .read("driver", out.driver)
      .read("graphs", out.graphs)
      .read("loader", out.loader)
      .refuse_others();
}

void take(const Json& value, const std::string& path, Plan::Numerics& out, Problems& problems) {
  Fields fields(value, path, problems);
  fields.read("precision", out.precision)
      .read("channels_last", out.channels_last)
      .read("deterministic", out.deterministic)
      .read("cudnn_benchmark", out.cudnn_benchmark)
      .read("intra_op_threads", out.intra_op_threads)
      .read("wire", out.wire)
      .read("scaled_decoding", out.scaled_decoding)
      .refuse_others();
}

Plan read_plan(const Json& document, Problems& problems) {
  Plan plan;
  Fields fields(document, "", problems);
  fields.check_version(fields.find("version"), kPlanVersion);
  if (document.is_object() && !document.contains("schedule"))
    problems.emplace_back("schedule.lanes is missing: list the steps of each lane");
  fields.read("schedule", plan.schedule).read("numerics", plan.numerics).refuse_others();
  return plan;
}

Json lanes_json(const std::vector<LanePlan>& lanes) {
  Json result = Json::array();
  for (const LanePlan& lane : lanes)
    result.push_back(Json{{"steps", lane.steps}, {"priority", lane.priority}});
  return result;
}

Json wire_json(const WireFormats& formats) {
  Json result = Json::object();
  for (const auto& [field, wire] : formats) result[field] = to_string(wire);
  return result;
}

Json loader_json(const LoaderPlan& loader) {
  const CacheOptions kept = loader.cache.value_or(CacheOptions());
  const Json cache = {{"after", kept.after}, {"bytes", kept.bytes}};
  return {{"num_workers", loader.num_workers},
          {"prefetch_batches", loader.prefetch_batches},
          {"pin_memory", loader.pin_memory},
          {"wire", wire_json(loader.wire)},
          {"read_ahead",
           {{"reads", loader.read_ahead.reads}, {"chunk_bytes", loader.read_ahead.chunk_bytes}}},
          {"cpus", format_cpu_list(loader.cpus)},
          {"cache", loader.cache ? cache : Json()},
          {"on_device", loader.on_device}};
}

}  // namespace

std::string to_json_text(const Plan& plan) {
  const Plan::Schedule& schedule = plan.schedule;
  const Plan::Numerics& numerics = plan.numerics;
  const Json json = {{"version", kPlanVersion},
                     {"schedule",
                      {{"mode", schedule.mode},
                       {"lanes", lanes_json(schedule.lanes)},
                       {"depth", schedule.depth},
                       {"run_ahead", schedule.run_ahead},
                       {"driver", to_string(schedule.driver)},
                       {"graphs", schedule.graphs},
                       {"loader", loader_json(schedule.loader)}}},
                     {"numerics",
                      {{"precision", to_string(numerics.precision)},
                       {"channels_last", numerics.channels_last},
                       {"deterministic", numerics.deterministic},
                       {"cudnn_benchmark", numerics.cudnn_benchmark},
                       {"intra_op_threads", numerics.intra_op_threads},
                       {"wire", wire_json(numerics.wire)},
                       {"scaled_decoding", numerics.scaled_decoding}}}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Plan parse_plan(std::string_view text) {
  Problems problems;
  Plan plan = read_plan(json::parsed(text, "this plan"), problems);
  json::refuse_document("this plan", problems);
  return plan;
}

}  // namespace slipstream
