#include <algorithm>
#include <cmath>

#include "core/figures.h"
#include "core/json_fields.h"
#include "doctor/model_parts.h"
#include "report/doctor_words.h"
#include "report/json.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kTolerance = 0.02;
constexpr double kSmallStep = 0.05;  ///< share of a sample's cost

enum class BetterWhen : std::uint8_t { higher, lower };

struct NamedFigure {
  std::string name;
  Measured measured;
  BetterWhen better;
  bool matters = true;
};

using Figures = std::vector<NamedFigure>;

/// Adds a value. A second one with the same name becomes "NAME (2)", because pipelines may have a
/// transform twice.
void add(Figures& figures, const std::string& name, const Json& measured, BetterWhen better,
         bool matters = true) {
  const auto is_taken = [&figures](const std::string& candidate) {
    return std::any_of(figures.begin(), figures.end(), [&candidate](const NamedFigure& figure) {
      return figure.name == candidate;
    });
  };
  std::string unique = name;
  for (int count = 2; is_taken(unique); ++count) unique = name + " (" + std::to_string(count) + ")";
  if (!measured.is_null()) figures.push_back({unique, parse_measured(measured), better, matters});
}

/// Reads the values in the order in which they are shown.
Figures read_figures(const Json& report) {
  Figures figures;
  add(figures, "ceiling", report.at("ceiling"), BetterWhen::higher);
  add(figures, "rate", report.at("rate"), BetterWhen::higher);
  for (const Json& level : report.at("levels")) {
    const std::string name = level.at("name").get<std::string>();
    if (name != kDeviceLevel && name != kWholeLevel)
      add(figures, name, level.at("with_training"), BetterWhen::higher);
    add(figures, name + ", loader alone", level.at("loader_alone"), BetterWhen::higher);
  }
  const auto wall_ms = [](const Json& cost) { return parse_measured(cost.at("wall_ms")).value; };
  double whole_ms = 0;
  for (const Json& cost : report.at("costs")) whole_ms += wall_ms(cost);
  for (const Json& cost : report.at("costs"))
    add(figures, cost.at("name").get<std::string>() + ", ms a sample", cost.at("wall_ms"),
        BetterWhen::lower, wall_ms(cost) >= kSmallStep * whole_ms);
  return figures;
}

/// Returns true if the intervals do not touch. Returns false if a bound is unknown, because then
/// nothing is certain.
bool is_beyond_noise(const Measured& before, const Measured& now, BetterWhen better) {
  if (before.n == 0 || now.n == 0) return false;
  if (better == BetterWhen::higher)
    return now.high < before.low && now.value < before.value * (1 - kTolerance);
  return now.low > before.high && now.value > before.value * (1 + kTolerance);
}

std::vector<BaselineRow> compare_figures(const Figures& before, const Figures& now) {
  const auto find = [](const Figures& figures, const std::string& name) {
    return std::find_if(figures.begin(), figures.end(),
                        [&name](const NamedFigure& figure) { return figure.name == name; });
  };
  std::vector<BaselineRow> rows;
  for (const NamedFigure& figure : now) {
    BaselineRow& row = rows.emplace_back();
    row.name = figure.name;
    row.now = figure.measured;
    const auto old = find(before, figure.name);
    if (old == before.end()) continue;
    row.before = old->measured;
    row.is_worse =
        (figure.matters || old->matters) && is_beyond_noise(row.before, row.now, figure.better);
  }
  for (const NamedFigure& figure : before) {
    if (find(now, figure.name) != now.end()) continue;
    BaselineRow& row = rows.emplace_back();
    row.name = figure.name;
    row.before = figure.measured;
  }
  return rows;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Refused("the baseline is not a report of the doctor: " + what);
}

void check(const Json& json) {
  if (json.is_discarded()) refuse("it is not JSON, or nested too deeply");
  const Json schema = json.is_object() ? json.value("schema", Json()) : Json();
  if (schema != kDoctorSchema)
    refuse(schema.is_string() ? "it is a " + schema.get<std::string>()
                              : "it is JSON of another kind");
  if (json.value("version", Json()) != kDoctorVersion)
    refuse("its version is not " + std::to_string(kDoctorVersion));
}

void check_same_work(const Json& before, const Json& now) {
  const auto check = [](const std::string& what, const Json& old, const Json& current) {
    if (old == current) return;
    throw Refused("the baseline has another " + what + ": " + old.dump() + ", this report has " +
                  current.dump() + "; run the doctor with the " + what +
                  " of the baseline, or create a new baseline");
  };
  check("workload", before.at("workload").at("name"), now.at("workload").at("name"));
  check("batch size", before.at("loader").at("batch_size"), now.at("loader").at("batch_size"));
}

std::string said(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> differences(const Json& before, const Json& now) {
  std::vector<std::string> list;
  const auto add = [&list](const std::string& what, const Json& old, const Json& current) {
    if (old != current)
      list.push_back(what + ": " + said(old) + " before, " + said(current) + " now");
  };
  const auto gpu = [](const Json& report) {
    const Json& of = report.at("environment").at("gpu");
    return of.is_null() ? Json("none") : of.at("name");
  };
  const auto cpu = [](const Json& report, const char* key) {
    return report.at("environment").at("cpu").at(key);
  };
  add("GPU", gpu(before), gpu(now));
  add("CPU", cpu(before, "model"), cpu(now, "model"));
  add("cores", cpu(before, "logical_cores"), cpu(now, "logical_cores"));
  const Json& old_options = before.at("workload").at("options");
  const Json& options = now.at("workload").at("options");
  for (const auto& option : options.items())
    add(option.key(), old_options.value(option.key(), Json("not given")), option.value());
  for (const auto& option : old_options.items())
    if (!options.contains(option.key())) add(option.key(), option.value(), "not given");
  const Json old_plan = before.at("plan").flatten(), plan = now.at("plan").flatten();
  for (const auto& [key, value] : plan.items())
    add("plan" + key, old_plan.value(key, Json("not there")), value);
  for (const auto& [key, value] : old_plan.items())
    if (!plan.contains(key)) add("plan" + key, value, "not there");
  return list;
}

}  // namespace

BaselineComparison against_baseline(const DoctorReport& report, std::string_view baseline) {
  const Json before = json::parsed_or_discarded(baseline);
  check(before);
  const Json now = json::parsed(doctor_report_json(report), "the report");
  try {
    check_same_work(before, now);
    return {compare_figures(read_figures(before), read_figures(now)), differences(before, now)};
  } catch (const Json::exception&) {
    refuse("keys are missing or have another type (docs/doctor-json.md)");
  }
}

bool is_worse(const BaselineComparison& comparison) {
  return std::any_of(comparison.rows.begin(), comparison.rows.end(),
                     [](const BaselineRow& row) { return row.is_worse; });
}

std::string baseline_text(const BaselineComparison& comparison) {
  std::vector<std::vector<std::string>> cells = {{"figure", "before", "now", "change", ""}};
  for (const BaselineRow& row : comparison.rows) {
    const double change = row.now.value / row.before.value - 1;
    const bool known = is_there(row.before) && is_there(row.now) && std::isfinite(change);
    cells.push_back({printable(row.name), figure(row.before), figure(row.now),
                     known ? (change > 0 ? "+" : "") + percent(change) : "-",
                     row.is_worse ? "WORSE" : ""});
  }
  std::string text = aligned_table(cells, {3});
  for (const std::string& difference : comparison.differences)
    text += "not the same: " + printable(difference) + "\n";
  return text;
}

}  // namespace slipstream
