#include "report/inspect_report.h"

#include <map>

#include "report/json.h"

namespace slipstream {
namespace {

Json to_json(const Shape& shape) {
  Json dims = Json::array();
  for (std::size_t i = 0; i < shape.rank; ++i) dims.push_back(shape[i]);
  return dims;
}

Json to_json(const FieldSummary& field) {
  Json stored = Json::object();
  for (const auto& [form, count] : field.stored) stored[form] = count;
  Json classes = Json::array();
  std::map<std::int64_t, std::uint64_t> counts = field.classes;
  for (std::size_t k = 0; k < field.class_names.size(); ++k)
    counts.emplace(static_cast<std::int64_t>(k), 0);
  for (const auto& [number, count] : counts) {
    Json& item = classes.emplace_back(Json{{"class", number}});
    const auto index = static_cast<std::size_t>(number);
    if (index < field.class_names.size()) item["name"] = field.class_names[index];
    item["samples"] = count;
  }
  const bool is_seen = !field.stored.empty();
  return {{"name", field.spec.name},
          {"kind", to_string(field.spec.kind)},
          {"stored", std::move(stored)},
          {"stored_bytes", field.stored_bytes},
          {"transparent", field.transparent},
          {"smallest", is_seen ? to_json(field.smallest) : Json(nullptr)},
          {"largest", is_seen ? to_json(field.largest) : Json(nullptr)},
          {"classes", std::move(classes)}};
}

}  // namespace

std::string inspect_report_json(const InspectReport& report) {
  const auto damaged = [](const DamagedSample& each) -> Json {
    return {{"sample", each.sample}, {"name", each.name}, {"message", each.message}};
  };
  return printed({{"schema", "slipstream.inspect"},
                  {"version", 1},
                  {"data", report.data},
                  {"samples", report.found.samples},
                  {"inspected", report.found.inspected},
                  {"fields", json_list(report.found.fields,
                                       [](const FieldSummary& field) { return to_json(field); })},
                  {"damaged", json_list(report.found.damaged, damaged)},
                  {"changed", report.changed},
                  {"remarks", report.found.remarks}});
}

}  // namespace slipstream
