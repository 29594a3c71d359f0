#include "report/doctor_tables.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/number_text.h"
#include "report/doctor_words.h"
#include "report/markup.h"
#include "report/text.h"

namespace slipstream {
namespace {

struct Column {
  std::string title;
  std::string cell;  ///< markup
  std::string css_class = {};
};

/// On a narrow page each row becomes a list, and its cells say their columns' titles.
std::string table_row(const std::vector<Column>& columns) {
  std::string cells;
  for (const Column& column : columns)
    cells += "<td" + (column.css_class.empty() ? "" : " class=\"" + column.css_class + "\"") +
             " data-label=\"" + escaped(column.title) + "\">" + element("span", "", column.cell) +
             "</td>";
  return element("tr", "", cells);
}

std::string table(const char* css_class, const std::vector<std::vector<Column>>& rows) {
  if (rows.empty()) return "";
  std::string head;
  std::string body;
  for (const Column& column : rows.front())
    head += element("th", column.css_class, escaped(column.title));
  for (const auto& row : rows) body += table_row(row);
  return element("table", css_class,
                 element("thead", "", element("tr", "", head)) + element("tbody", "", body));
}

/// "1.63 [1.55, 1.70]" in two parts.
std::string in_two(const std::string& text) {
  const std::size_t bracket = text.find(" [");
  if (bracket == std::string::npos) return element("b", "", escaped(text));
  return element("b", "", escaped(text.substr(0, bracket))) + " " +
         element("span", "ci", escaped(text.substr(bracket + 1)));
}

double most_wall_ms(const DoctorReport& report) {
  double most = 0;
  for (const CostRow& row : report.diagnosis.costs)
    if (is_there(row.wall_ms)) most = std::max(most, row.wall_ms.value);
  return most;
}

/// The step's name, and a bar: wall time, and the CPU time within.
std::string name_cell(const CostRow& row, double most_ms) {
  const std::string remarks = remarks_on(row);
  const auto box = [most_ms](const Measured& ms, const char* css_class) {
    if (!is_there(ms) || !(most_ms > 0)) return std::string();
    return std::string("<rect class=\"") + css_class + "\" height=\"7\" width=\"" +
           fixed(100 * std::clamp(ms.value / most_ms, 0.0, 1.0), 2) + "%\"/>";
  };
  return escaped(row.name) + "<svg role=\"presentation\" height=\"7\">" +
         box(row.wall_ms, "drained") + box(row.cpu_ms, "bar") + "</svg>" +
         (remarks.empty() ? "" : element("small", "", escaped(remarks)));
}

}  // namespace

std::string figure_markup(const Measured& measured) { return in_two(figure(measured)); }
std::string percent_markup(const Measured& share) { return in_two(percent(share)); }

std::string costs_table(const DoctorReport& report) {
  const double most_ms = most_wall_ms(report);
  std::vector<std::vector<Column>> rows;
  for (const CostRow& row : report.diagnosis.costs)
    rows.push_back({{"step", name_cell(row, most_ms)},
                    {"kind", escaped(spoken(row.group)), "kind"},
                    {"wall, ms", figure_markup(row.wall_ms)},
                    {"CPU, ms", figure_markup(row.cpu_ms)},
                    {"cores in use", compact(cores_used(row, report), 1)},
                    {"variation", compact(row.variation, 2)},
                    {"p99, ms", figure(row.p99_ms)},
                    {"makes", size_text(row.bytes)},
                    {"steps/s if it were free", figure_markup(row.without)}});
  return table("costs", rows);
}

std::string device_table(const DoctorReport& report) {
  std::vector<std::vector<Column>> rows;
  for (const DeviceCost& cost : report.observed.device)
    rows.push_back(
        {{"what", escaped(cost.name)},
         {"alone, ms a batch", figure_markup(in_ms(cost.seconds))},
         {"to enqueue, ms", compact(1e3 * cost.enqueue_s, 2)},
         {"moves or makes", cost.bytes == 0 ? "-" : size_text(static_cast<double>(cost.bytes))}});
  return table("device", rows);
}

std::string environment_list(const DoctorReport& report) {
  const Environment& of = report.environment;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"time", of.time},
      {"Slipstream", of.slipstream + ", revision " + of.revision},
      {"GPU", of.gpu ? of.gpu->name + ", driver " + of.gpu->driver : "none"},
      {"CPU", of.cpu + ", " + std::to_string(of.logical_cores) + " logical cores"},
      {"memory", size_text(static_cast<double>(of.memory_bytes))},
      {"system", of.os},
      {"built by", of.compiler + ", LibTorch " + of.libtorch}};
  for (const auto& [name, option] : report.workload.options)
    facts.emplace_back(name, option_text(option));
  std::string list;
  for (const auto& [name, value] : facts)
    list += element("dt", "", escaped(name)) + element("dd", "", escaped(value));
  return element("dl", "about", list);
}

}  // namespace slipstream
