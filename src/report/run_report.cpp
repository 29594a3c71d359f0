#include <algorithm>
#include <limits>
#include <numeric>

#include "core/figures.h"
#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "report/json.h"
#include "report/report.h"

namespace slipstream {
namespace {

constexpr const char* kSchema = "slipstream.run";
constexpr int kSchemaVersion = 1;

Json numbers(const std::vector<float>& values) {
  return json_list(values, [](float value) { return number(value); });
}

Json to_json(const std::optional<GpuUseInfo>& use) {
  if (!use) return nullptr;
  return {{"sm_activity", to_json(use->sm_activity)},
          {"dram_use", to_json(use->dram_use)},
          {"gpu_utilization", to_json(use->gpu_utilization)},
          {"note", use->note}};
}

Json to_json(const MemoryResult& memory) {
  return {{"peak_bytes", memory.peak_bytes},
          {"reserved_bytes", memory.reserved_bytes},
          {"reserved_after_warm_up_bytes", memory.reserved_after_warm_up_bytes},
          {"predicted_extra_bytes", memory.predicted_extra_bytes}};
}

Json to_json(const std::optional<Overlap>& overlap) {
  if (!overlap) return nullptr;
  Json alone = json_list(overlap->alone_steps_per_second, [](const auto& each) -> Json {
    return {{"lane", each.first}, {"steps_per_second", to_json(each.second)}};
  });
  return {{"efficiency", to_json(overlap->efficiency)},
          {"serial_steps_per_second", to_json(overlap->serial_steps_per_second)},
          {"alone", std::move(alone)}};
}

Json to_json(const Gain& gain) {
  return {{"part", gain.part},
          {"predicted", to_json(gain.predicted)},
          {"measured", to_json(gain.measured)},
          {"chosen", words_or_null(gain.chosen)},
          {"reason", words_or_null(gain.reason)}};
}

Json to_json(const std::optional<JpegResult>& jpeg) {
  if (!jpeg) return nullptr;
  return {{"images", jpeg->images}, {"on_cpu", jpeg->on_cpu}, {"engines", jpeg->engines}};
}

Json to_json(const std::optional<GraphCounts>& graphs) {
  if (!graphs) return nullptr;
  return {{"graphs", graphs->graphs},
          {"replays", graphs->replays},
          {"renewed", graphs->renewed},
          {"warnings", graphs->warnings}};
}

Json to_json(const std::optional<AutoChoice>& choice) {
  if (!choice) return nullptr;
  Json json = {{"chosen", choice->chosen},
               {"reason", choice->reason},
               {"serial", to_json(choice->serial)},
               {"pipelined", to_json(choice->pipelined)}};
  if (choice->graph.n > 0) json["graph"] = to_json(choice->graph);
  return json;
}

Json result_json(const RunResult& result) {
  return {{"plan", json::parsed(to_json_text(result.plan), "the plan")},
          {"first_step", result.first_step},
          {"steps", result.steps},
          {"interrupted", result.interrupted},
          {"wall_s", number(result.wall_s)},
          {"steps_per_second", to_json(result.steps_per_second)},
          {"losses", numbers(result.losses)},
          {"accuracies", numbers(result.accuracies)},
          {"digest", to_hex(result.digest)},
          {"input_wait_share", number(result.input_wait_share)},
          {"memory", to_json(result.memory)},
          {"skipped", to_json(result.skipped)},
          {"overlap", to_json(result.overlap)},
          {"gains", json_list(result.gains, [](const Gain& gain) { return to_json(gain); })},
          {"jpeg", to_json(result.jpeg)},
          {"graphs", to_json(result.graphs)},
          {"cache", to_json(result.cache)},
          {"disk_cache", to_json(result.disk_cache)},
          {"counters", json_list(result.counters)},
          {"lanes", json_list(result.lanes)}};
}

/// Throws Error with what `json` is unless it is a report of a run.
void check_schema(const Json& json) {
  const std::string schema = json.is_object() ? json.value("schema", Json()).dump() : "";
  const auto is_not = [](const std::string& what) {
    throw Error("not a report of a run: it is " + what);
  };
  if (schema == "\"slipstream.bench\"") is_not("a report of bench");
  if (json.is_object() && json.contains("schedule")) is_not("a plan");
  if (schema != std::string("\"") + kSchema + "\"") is_not("JSON of another kind");
  if (json.value("version", Json()) != kSchemaVersion)
    is_not("not of version " + std::to_string(kSchemaVersion));
}

/// Returns true for options that select how the work is done, which changes no bit of the result.
bool changes_no_bit(const std::string& option) {
  return option == "disk_cache" || option == "fork";
}

std::vector<std::pair<std::string, std::string>> list_work(const Json& report) {
  std::vector<std::pair<std::string, std::string>> work;
  const auto add = [&work](const std::string& key, const Json& value) {
    work.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  };
  add("workload", report.at("workload").at("name"));
  for (const auto& option : report.at("workload").at("options").items())
    if (!changes_no_bit(option.key())) add(option.key(), option.value());
  add("steps", report.at("steps"));
  return work;
}

void take_losses(ComparisonRow& row, std::span<const float> losses) {
  const LossTrend trend = loss_trend(losses);
  row.first_loss = trend.first;
  row.final_loss = trend.last;
}

ComparisonRow parsed_row(std::string name, const Json& report) {
  check_schema(report);
  ComparisonRow row;
  row.name = std::move(name);
  row.plan = parse_plan(report.at("plan").dump());
  row.is_auto = !report.value("auto", Json()).is_null();
  row.work = list_work(report);
  row.steps_per_second = reportable_rate(parse_measured(report.at("steps_per_second")));
  row.input_wait_share = to_number(report.at("input_wait_share"));
  std::vector<float> losses;
  for (const Json& loss : report.at("losses"))
    losses.push_back(static_cast<float>(to_number(loss)));
  take_losses(row, losses);
  row.digest = std::stoull(report.at("digest").get<std::string>(), nullptr, 16);
  row.warnings = report.at("environment").at("warnings").get<std::vector<std::string>>();
  return row;
}

}  // namespace

Measured measured_once(double value, std::string unit) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {value, kUnknown, kUnknown, std::move(unit), 1};
}

Measured reportable_rate(const Measured& rate) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (rate.n >= kFewestStepsForARate) return rate;
  return {kUnknown, kUnknown, kUnknown, rate.unit, 0};
}

LossTrend loss_trend(std::span<const float> losses) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (losses.empty()) return {kUnknown, kUnknown, 0};
  const std::size_t steps = std::max<std::size_t>(1, losses.size() / 10);
  const auto mean = [steps](std::span<const float> part) {
    return std::accumulate(part.begin(), part.end(), 0.0) / static_cast<double>(steps);
  };
  return {mean(losses.first(steps)), mean(losses.last(steps)), steps};
}

std::string loss_text(std::span<const float> losses) {
  if (losses.empty()) return "";
  const LossTrend trend = loss_trend(losses);
  const std::string of =
      trend.steps == 1 ? "the first and the last step"
                       : "means of the first and last " + std::to_string(trend.steps) + " steps";
  return "loss " + loss_figure(trend.first) + " -> " + loss_figure(trend.last) + " (" + of + ")";
}

std::string warning_lines(const Environment& environment) {
  std::string lines;
  for (const std::string& warning : environment.warnings) lines += "warning: " + warning + "\n";
  return lines;
}

std::string run_report_json(const RunReport& report) {
  Json json = {{"schema", kSchema},
               {"version", kSchemaVersion},
               {"environment", to_json(report.environment)},
               {"workload", to_json(report.workload)}};
  if (!report.class_names.empty()) json["class_names"] = report.class_names;
  json.update(result_json(report.result));
  json["gpu"] = to_json(report.gpu);
  json["auto"] = to_json(report.auto_choice);
  for (const ScoreRow& row : report.validation) {
    Json scores = Json::object();
    for (const auto& [name, value] : row.scores) scores[name] = number(value);
    json["validation"].push_back({{"step", row.step}, {"epoch", row.epoch}, {"scores", scores}});
  }
  return printed(json);
}

ComparisonRow comparison_row(std::string name, const RunResult& result) {
  ComparisonRow row;
  row.name = std::move(name);
  row.plan = result.plan;
  row.steps_per_second = reportable_rate(result.steps_per_second);
  row.input_wait_share = result.input_wait_share;
  take_losses(row, result.losses);
  row.digest = result.digest;
  return row;
}

ComparisonRow comparison_row(std::string name, std::string_view run_report_json) {
  const Json json = json::parsed_or_discarded(run_report_json);
  if (json.is_discarded())
    throw Error("not a report of a run: it is not JSON, or nested too deeply");
  try {
    return parsed_row(std::move(name), json);
  } catch (const Json::exception&) {
    throw Error(
        "not a report of a run: keys are missing or have another type (docs/run-report.md)");
  } catch (const std::logic_error&) {
    throw Error("not a report of a run: its digest is not hexadecimal");
  }
}

std::string gain_line(const Gain& gain) {
  const std::string factor =
      fixed(gain.measured.value, 2) + "x (limit " + fixed(gain.predicted.value, 2) + "x)";
  if (gain.chosen.empty()) return "Loading overlapped training: " + factor + "\n";
  std::string line = gain.part + ": " + gain.chosen + ", " + gain.reason;
  if (gain.measured.n > 0) line += "; branches on separate streams: " + factor;
  return line + "\n";
}

}  // namespace slipstream
