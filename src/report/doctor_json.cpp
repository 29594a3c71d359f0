#include "core/json_fields.h"
#include "report/doctor_report.h"
#include "report/doctor_words.h"
#include "report/json.h"
#include "report/report.h"

namespace slipstream {
namespace {

Json json_of(Culprit culprit) { return name_of(culprit); }

Json json_of(const Plan& plan) { return json::parsed(to_json(plan), "the plan"); }

Json share(const std::optional<double>& value) {
  return value ? json_of(measured_once(*value, "share")) : Json();
}

Json json_of(const Level& level) {
  return {{"name", level.name},
          {"after", words_or_null(level.after)},
          {"items", level.items},
          {"with_training", json_of(level.with_training)},
          {"loader_alone", json_of(level.loader_alone)},
          {"error", words_or_null(level.error)},
          {"loader_alone_error", words_or_null(level.loader_alone_error)}};
}

Json json_of(const CostRow& row, const DoctorReport& report) {
  return {{"name", row.name},
          {"group", json_of(row.group)},
          {"wall_ms", json_of(row.wall_ms)},
          {"cpu_ms", json_of(row.cpu_ms)},
          {"cores", number(cores_used(row, report))},
          {"bytes", number(row.bytes)},
          {"variation", number(row.variation)},
          {"p99_ms", number(row.p99_ms)},
          {"locked", number(row.locked)},
          {"is_memory_bound", row.is_memory_bound},
          {"without", json_of(row.without)}};
}

Json json_of(const DeviceCost& cost) {
  return {{"name", cost.name},
          {"seconds", json_of(cost.seconds)},
          {"enqueue_s", number(cost.enqueue_s)},
          {"bytes", cost.bytes}};
}

Json json_of(const Change& change) {
  return {{"id", change.id},
          {"what", change.what},
          {"how", words_or_null(change.how)},
          {"can_apply", static_cast<bool>(change.apply)},
          {"against", json_of(change.against)},
          {"predicted", json_of(change.predicted)},
          {"gain", json_of(change.gain)},
          {"is_bound", change.is_bound}};
}

Json json_of(const Utilization& use, unsigned cores) {
  return {{"sm_activity", share(use.sm_activity)},
          {"dram_use", share(use.dram_use)},
          {"coarse_utilization", share(use.coarse)},
          {"note", use.note},
          {"cpu_share", number(use.cpu_share)},
          {"cores", cores},
          {"read_bytes_per_second", number(use.read_bytes_per_second)}};
}

Json json_of(const Outcome& outcome) {
  return {{"changes", outcome.changes},
          {"before", json_of(outcome.before)},
          {"predicted", json_of(outcome.predicted)},
          {"measured", json_of(outcome.measured)},
          {"plan", json_of(outcome.plan)},
          {"note", outcome.note.empty() ? Json() : Json(outcome.note)}};
}

Json loader_json(const Observations& observed) {
  return {{"batch_size", observed.batch_size},
          {"num_workers", observed.workers},
          {"batch_buffers", observed.slabs},
          {"rate_of_all_workers", slipstream::json_of(observed.rate_of_all_workers)},
          {"rate_of_one_worker", slipstream::json_of(observed.rate_of_one_worker)},
          {"rate_of_half_of_workers", observed.rate_of_half_of_workers.n > 0
                                          ? slipstream::json_of(observed.rate_of_half_of_workers)
                                          : Json()},
          {"cores_at_work", number(observed.capacity.cores)},
          {"memory_streams", number(observed.capacity.memory_streams)}};
}

template <typename T>
Json list_of(const std::vector<T>& values) {
  return json_list(values, [](const T& value) { return json_of(value); });
}

}  // namespace

std::string doctor_report_json(const DoctorReport& report) {
  const Observations& observed = report.observed;
  const Diagnosis& diagnosis = report.diagnosis;
  const auto& cores_needed = diagnosis.cores_needed;
  const Json json = {
      {"schema", kDoctorSchema},
      {"version", kDoctorVersion},
      {"environment", slipstream::json_of(report.environment)},
      {"workload", slipstream::json_of(report.workload)},
      {"plan", json_of(observed.situation.plan)},
      {"budget", {{"given_s", number(report.budget_s)}, {"used_s", number(report.seconds)}}},
      {"interrupted", report.interrupted},
      {"verdict", json_of(diagnosis.verdict)},
      {"reason", diagnosis.reason},
      {"culprits", list_of(diagnosis.culprits)},
      {"ceiling", slipstream::json_of(diagnosis.ceiling)},
      {"rate", slipstream::json_of(diagnosis.rate)},
      {"share", slipstream::json_of(diagnosis.share)},
      {"cores_needed", cores_needed ? number(*cores_needed) : Json()},
      {"model_error", number(diagnosis.model_error)},
      {"levels", list_of(observed.levels)},
      {"costs",
       json_list(diagnosis.costs, [&](const CostRow& row) { return json_of(row, report); })},
      {"device", list_of(observed.device)},
      {"changes", list_of(diagnosis.changes)},
      {"outcome", report.outcome ? json_of(*report.outcome) : Json()},
      {"utilization", json_of(observed.utilization, observed.situation.cores)},
      {"loader", loader_json(observed)},
      {"lanes", json_list(report.lanes)},
      {"warnings", observed.warnings}};
  return printed(json);
}

}  // namespace slipstream
