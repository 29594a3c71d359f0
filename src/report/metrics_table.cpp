#include "report/metrics_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/json_fields.h"
#include "core/number_text.h"
#include "report/json.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::array<std::string_view, 3> kOwnNames = {"step", "epoch", "time_s"};

bool is_own(std::string_view name) {
  return std::find(kOwnNames.begin(), kOwnNames.end(), name) != kOwnNames.end();
}

bool is_number_or_null(const Json& json) { return json.is_number() || json.is_null(); }

bool is_row(const Json& json) {
  return json.is_object() && json.contains("step") && json["step"].is_number_unsigned() &&
         json.contains("epoch") && is_number_or_null(json["epoch"]) && json.contains("time_s") &&
         is_number_or_null(json["time_s"]);
}

std::string csv_cell(double value) { return std::isfinite(value) ? number_text(value) : ""; }

/// Quotes a cell if it contains a comma, a quote or a line end (RFC 4180).
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

MetricsTable MetricsTable::parsed(std::string_view lines, std::uint64_t last_step) {
  MetricsTable table;
  for (std::size_t end = 0; (end = lines.find('\n')) != lines.npos; lines.remove_prefix(end + 1)) {
    const Json json = json::parsed_or_discarded(lines.substr(0, end));
    if (!is_row(json) || json["step"].get<std::uint64_t>() > last_step) continue;
    NamedValues values;
    for (const auto& [name, value] : json.items())
      if (!is_own(name) && is_number_or_null(value)) values.emplace_back(name, to_number(value));
    table.add(json["step"].get<std::uint64_t>(), to_number(json["epoch"]),
              to_number(json["time_s"]), values);
  }
  return table;
}

void MetricsTable::add(std::uint64_t step, double epoch, double time_s, const NamedValues& values) {
  MetricsRow row{step, epoch, time_s, {}};
  for (const auto& [name, value] : values) {
    ensure(!is_own(name), "values of a row do not have the names of its place and time");
    const std::size_t index = column_index(name);
    std::erase_if(row.values, [&](const auto& known) { return known.first == index; });
    row.values.emplace_back(index, value);
  }
  rows_.push_back(std::move(row));
}

std::size_t MetricsTable::column_index(const std::string& name) {
  const std::string shown = printable(name);
  const auto known = std::find(names_.begin(), names_.end(), shown);
  const auto index = static_cast<std::size_t>(known - names_.begin());
  if (known == names_.end()) names_.push_back(shown);
  return index;
}

NamedValues MetricsTable::values(std::size_t row) const {
  NamedValues named;
  for (const auto& [index, value] : rows_[row].values) named.emplace_back(names_[index], value);
  return named;
}

std::string MetricsTable::json_line(std::size_t row) const {
  const MetricsRow& added = rows_[row];
  Json line = {
      {"step", added.step}, {"epoch", number(added.epoch)}, {"time_s", number(added.time_s)}};
  for (const auto& [index, value] : added.values) line[names_[index]] = number(value);
  return line.dump() + "\n";
}

std::string MetricsTable::csv_head() const {
  std::string head;
  for (const std::string_view name : kOwnNames)
    head += (head.empty() ? "" : ",") + std::string(name);
  for (const std::string& name : names_) head += "," + csv_cell(name);
  return head + "\n";
}

std::string MetricsTable::csv_line(std::size_t row) const {
  const MetricsRow& added = rows_[row];
  std::vector<std::string> cells(names_.size());
  for (const auto& [index, value] : added.values) cells[index] = csv_cell(value);
  std::string line =
      std::to_string(added.step) + "," + csv_cell(added.epoch) + "," + csv_cell(added.time_s);
  for (const std::string& cell : cells) line += "," + cell;
  return line + "\n";
}

}  // namespace slipstream
