#include "core/json_fields.h"
#include "report/doctor_report.h"
#include "report/doctor_words.h"
#include "report/json.h"
#include "report/report.h"

namespace slipstream {
namespace {

Json to_json(Bottleneck bottleneck) { return to_string(bottleneck); }

Json to_json(const Plan& plan) { return json::parsed(to_json_text(plan), "the plan"); }

Json share(const std::optional<double>& value) {
  return value ? to_json(measured_once(*value, "share")) : Json();
}

Json to_json(const Level& level) {
  return {{"name", level.name},
          {"after", words_or_null(level.after)},
          {"items", level.items},
          {"with_training", to_json(level.with_training)},
          {"loader_alone", to_json(level.loader_alone)},
          {"error", words_or_null(level.error)},
          {"loader_alone_error", words_or_null(level.loader_alone_error)}};
}

Json to_json(const CostRow& row, const DoctorReport& report) {
  return {{"name", row.name},
          {"group", to_json(row.group)},
          {"wall_ms", to_json(row.wall_ms)},
          {"cpu_ms", to_json(row.cpu_ms)},
          {"cores", number(cores_used(row, report))},
          {"output_bytes", number(row.bytes)},
          {"relative_spread", number(row.variation)},
          {"p99_ms", number(row.p99_ms)},
          {"locked_share", number(row.locked)},
          {"is_memory_bound", row.is_memory_bound},
          {"steps_per_second_without", to_json(row.without)}};
}

Json to_json(const DeviceCost& cost) {
  return {{"name", cost.name},
          {"seconds", to_json(cost.seconds)},
          {"enqueue_s", number(cost.enqueue_s)},
          {"bytes", cost.bytes}};
}

Json to_json(const Change& change) {
  return {{"id", change.id},
          {"description", change.description},
          {"action", words_or_null(change.action)},
          {"can_apply", static_cast<bool>(change.apply)},
          {"effort", to_string(change.effort)},
          {"bottleneck", to_json(change.bottleneck)},
          {"predicted", to_json(change.predicted)},
          {"gain", to_json(change.gain)},
          {"is_upper_bound", change.is_upper_bound},
          {"measured", change.measured.n > 0 ? to_json(change.measured) : Json()},
          {"measured_gain", change.measured.n > 0 ? to_json(change.measured_gain) : Json()},
          {"code", words_or_null(change.code)}};
}

Json to_json(const Utilization& use, unsigned cores) {
  return {{"sm_activity", share(use.sm_activity)},
          {"dram_use", share(use.dram_use)},
          {"gpu_utilization", share(use.gpu_utilization)},
          {"note", use.note},
          {"cpu_share", number(use.cpu_share)},
          {"cores", cores},
          {"read_bytes_per_second", number(use.read_bytes_per_second)}};
}

Json to_json(const RankResult& result) {
  return {{"rank", result.rank},
          {"verdict", result.verdict},
          {"ceiling", to_json(result.ceiling)},
          {"rate", to_json(result.rate)}};
}

Json to_json(const Outcome& outcome) {
  return {{"changes", outcome.changes},
          {"before", to_json(outcome.before)},
          {"predicted", to_json(outcome.predicted)},
          {"measured", to_json(outcome.measured)},
          {"plan", to_json(outcome.plan)},
          {"note", outcome.note.empty() ? Json() : Json(outcome.note)}};
}

Json loader_json(const Observations& observed) {
  return {{"batch_size", observed.batch_size},
          {"num_workers", observed.workers},
          {"batch_buffers", observed.slabs},
          {"rate_of_all_workers", slipstream::to_json(observed.rate_of_all_workers)},
          {"rate_of_one_worker", slipstream::to_json(observed.rate_of_one_worker)},
          {"rate_of_half_of_workers", observed.rate_of_half_of_workers.n > 0
                                          ? slipstream::to_json(observed.rate_of_half_of_workers)
                                          : Json()},
          {"cores_at_work", number(observed.capacity.cores)},
          {"memory_streams", number(observed.capacity.memory_streams)}};
}

template <typename T>
Json to_json_list(const std::vector<T>& values) {
  return json_list(values, [](const T& value) { return to_json(value); });
}

}  // namespace

std::string doctor_report_json(const DoctorReport& report) {
  const Observations& observed = report.observed;
  const Diagnosis& diagnosis = report.diagnosis;
  const auto& cores_needed = diagnosis.cores_needed;
  const Json json = {
      {"schema", kDoctorSchema},
      {"version", kDoctorVersion},
      {"environment", slipstream::to_json(report.environment)},
      {"workload", slipstream::to_json(report.workload)},
      {"plan", to_json(observed.situation.plan)},
      {"budget", {{"limit_s", number(report.budget_s)}, {"used_s", number(report.seconds)}}},
      {"interrupted", report.interrupted},
      {"verdict", verdict_name(diagnosis)},
      {"reason", diagnosis.reason},
      {"bottlenecks", bottleneck_names(diagnosis)},
      {"ceiling", slipstream::to_json(diagnosis.ceiling)},
      {"rate", slipstream::to_json(diagnosis.rate)},
      {"share", slipstream::to_json(diagnosis.share)},
      {"cores_needed", cores_needed ? number(*cores_needed) : Json()},
      {"model_error", number(diagnosis.model_error)},
      {"levels", to_json_list(observed.levels)},
      {"costs",
       json_list(diagnosis.costs, [&](const CostRow& row) { return to_json(row, report); })},
      {"device", to_json_list(observed.device)},
      {"changes", to_json_list(diagnosis.changes)},
      {"outcome", report.outcome ? to_json(*report.outcome) : Json()},
      {"utilization", to_json(observed.utilization, observed.situation.cores)},
      {"loader", loader_json(observed)},
      {"lanes", json_list(report.lanes)},
      {"ranks", to_json_list(report.ranks)},
      {"warnings", observed.warnings}};
  return printed(json);
}

}  // namespace slipstream
