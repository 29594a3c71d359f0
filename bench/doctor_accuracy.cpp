// Tests the doctor on pipelines with known bottlenecks: is its verdict right, and how exact is the
// gain that it predicts for each fix?
//
//   doctor_accuracy [--device cpu] [--budget 10] [--cases stated|real] [--only NAME] [--first 1]
//   [--json FILE]
//
// FILE is rewritten after each case; a run that continues an earlier one starts at --first.
//
// Training waits for 20 ms on each batch of 8 samples, so that a CPU can simulate a device. The
// truth is measured, with the rate of the pipeline after each fix. The true bottleneck is the one
// whose fix gains most; others whose gain is within 3 % or the confidence interval of it are
// accepted as well. If no single fix gains 3 %, each of them is accepted. If the rate is at least
// 95 % of the device's rate, there is no bottleneck; within 3 % of that limit, both answers are
// accepted.
//
// The unchanged pipeline is measured before the doctor examines it, and again with the fixes. If
// the machine's speed has changed in between so that the two lead to different answers, both are
// accepted. If the doctor asks for more time, it gets 45 s.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>

#include "core/files.h"
#include "doctor/drained_rate.h"
#include "doctor/training_rate.h"
#include "doctor_cases.h"
#include "engine/environment.h"
#include "report/json.h"
#include "slipstream/core/error.h"
#include "slipstream/doctor/doctor.h"

namespace {

using namespace slipstream;

constexpr double kTie = 0.03;
constexpr double kFed = 0.95;   ///< share of the device's rate
constexpr double kLongS = 45;   ///< budget if the doctor asks for more time
constexpr double kTruthS = 2;   ///< time to measure a rate
constexpr double kCostS = 0.5;  ///< time to measure a cost

/// The predicted and the measured effect of a change.
struct Prediction {
  std::string of;
  Measured predicted, measured;
};

struct Found {
  double budget_s = 0;
  Diagnosis diagnosis;
  std::vector<Level> levels;
  /// steps/s of the unchanged pipeline before the doctor examines it
  double before = 0;
  /// the same after it: the difference shows the noise of the machine
  double again = 0;
  std::vector<Bottleneck> right;
  std::vector<Prediction> predictions;

  bool is_right() const {
    return std::find(right.begin(), right.end(), diagnosis.verdict) != right.end();
  }
};

class Bench {
 public:
  Bench(const std::string& device, double budget_s) : context_(device), budget_s_(budget_s) {
    numerics_.deterministic = true;
    numerics_.cudnn_benchmark = false;
  }

  bool on_gpu() const { return context_.kind() == DeviceKind::cuda; }
  Json environment() const { return slipstream::to_json(collect_environment(context_)); }

  Found examined(const Case& one) {
    Trainer trainer(build_pipeline(one.now), context_, numerics_);
    const Plan plan = build_plan(trainer.pipeline(), one.workers, one.now);
    Found found;
    found.before = measure_rate(trainer, plan).value;
    DoctorOptions options;
    Examination examination;
    for (const double budget_s : {budget_s_, kLongS}) {
      options.budget_s = found.budget_s = budget_s;
      try {
        examination = examine(trainer, plan, options);
      } catch (const Refused&) {  // the budget is too small
        if (budget_s == kLongS) throw;
        continue;
      }
      found.diagnosis = diagnose(examination.observed);
      found.levels = examination.observed.levels;
      if (found.diagnosis.verdict != Bottleneck::not_enough_evidence) break;
    }
    std::vector<Measured> fixed;
    for (const Fix& fix : one.fixes) fixed.push_back(fixed_rate(one, fix, examination, found));
    found.again = measure_rate(trainer, plan).value;
    found.right = one.allowed;
    for (const double unchanged : {found.before, found.again})
      add_right(one, fixed, unchanged, found.diagnosis.ceiling.value, found.right);
    try_numbers(trainer, plan, found);
    return found;
  }

 private:
  Plan build_plan(const Pipeline& declared, unsigned workers, const CaseSettings& made) const {
    LoaderPlan loader;
    loader.num_workers = workers;
    loader.pin_memory = made.is_pinned;
    return make_plan("serial", declared.device_steps(), context_.kind(), loader, numerics_);
  }

  Measured measure_rate(Trainer& trainer, const Plan& plan) const {
    TrainingRate rate(plan, std::nullopt);
    rate.measure(trainer, kTruthS, {});
    return rate.is_measured() ? rate.rate() : Measured{0, 0, 0, "steps/s", 0};
  }

  /// Time that one sample takes in `step` if only one worker runs, in seconds.
  double cost_in(const Trainer& trainer, const Fix& fix, const std::string& step) const {
    DrainedRate one(build_plan(trainer.pipeline(), 1, fix.made), std::nullopt);
    one.measure(trainer, kCostS, 0, {});
    for (const StepCounter& counter : one.counters())
      if (counter.name == step) return counter.wall_s / static_cast<double>(counter.calls);
    return 0;
  }

  Measured fixed_rate(const Case& one, const Fix& fix, const Examination& examination,
                      Found& found) {
    Trainer fixed(build_pipeline(fix.made), context_, numerics_);
    const unsigned workers = fix.workers > 0 ? fix.workers : one.workers;
    const Measured measured = measure_rate(fixed, build_plan(fixed.pipeline(), workers, fix.made));
    if (measured.n == 0) return measured;
    std::vector<AssumedCost> supposed;
    for (const std::string& step : fix.steps) supposed.push_back({step, cost_in(fixed, fix, step)});
    if (!supposed.empty())
      found.predictions.push_back(
          {"without " + std::string(to_string(fix.group)),
           what_if(examination.observed, found.diagnosis, supposed).predicted, measured});
    for (const Change& change : found.diagnosis.changes)
      if (change.id == fix.change)
        found.predictions.push_back({change.id, change.predicted, measured});
    return measured;
  }

  /// Records the predictions that need only the loader's counters.
  void try_numbers(Trainer& trainer, const Plan& plan, Found& found) {
    for (const Change& change : found.diagnosis.changes) {
      if (change.id != "num_workers" && change.id != "prefetch_batches") continue;
      Plan changed = plan;
      change.apply(changed);
      const Measured measured = measure_rate(trainer, changed);
      if (measured.n > 0)
        found.predictions.push_back({change.description, change.predicted, measured});
    }
  }

  /// `ceiling` is the rate of the device alone.
  static void add_right(const Case& one, const std::vector<Measured>& fixed, double unchanged,
                        double ceiling, std::vector<Bottleneck>& right) {
    double best = 0;
    for (const Measured& rate : fixed) best = std::max(best, rate.value);
    const auto add = [&](Bottleneck bottleneck) {
      if (std::find(right.begin(), right.end(), bottleneck) == right.end())
        right.push_back(bottleneck);
    };
    const double share = unchanged / std::max(best, ceiling);
    if (share >= kFed - kTie) {
      add(Bottleneck::device);
      add(Bottleneck::none);
    }
    if (share > kFed + kTie) return;
    const double least = best >= (1 + kTie) * unchanged ? best / (1 + kTie) : 0;
    for (std::size_t i = 0; i < fixed.size(); ++i)
      if (std::max(fixed[i].value, fixed[i].high) >= least) add(one.fixes[i].group);
  }

  Context context_;
  double budget_s_;
  Plan::Numerics numerics_;
};

/// Error of the predicted time of a step.
double relative_error(const Prediction& each) {
  return std::abs(each.measured.value / each.predicted.value - 1);
}

Json to_json(const Level& level) {
  return {{"name", level.name},
          {"with_training", slipstream::to_json(level.with_training)},
          {"loader_alone", slipstream::to_json(level.loader_alone)}};
}

Json to_json(const Case& one, const Found& found) {
  const Diagnosis& diagnosis = found.diagnosis;
  Json json = {{"case", one.name},
               {"workers", one.workers},
               {"is_real", one.is_real},
               {"budget_s", found.budget_s},
               {"verdict", std::string(to_string(diagnosis.verdict))},
               {"is_right", found.is_right()}};
  for (const Bottleneck bottleneck : found.right)
    json["right"].push_back(std::string(to_string(bottleneck)));
  json["ceiling"] = diagnosis.ceiling.value;
  json["rate"] = diagnosis.rate.value;
  json["rate_before"] = found.before;
  json["rate_again"] = found.again;
  json["model_error"] = diagnosis.model_error;
  if (!found.is_right()) json["reason"] = diagnosis.reason;
  for (const Level& level : found.levels) json["levels"].push_back(to_json(level));
  for (const CostRow& row : diagnosis.costs)
    if (row.locked > 0 || row.is_memory_bound)
      json["contended"].push_back(
          {{"step", row.name}, {"locked", row.locked}, {"is_memory_bound", row.is_memory_bound}});
  json["predictions"] = Json::array();
  for (const Prediction& each : found.predictions)
    json["predictions"].push_back({{"of", each.of},
                                   {"predicted", slipstream::to_json(each.predicted)},
                                   {"measured", slipstream::to_json(each.measured)},
                                   {"error", relative_error(each)},
                                   {"is_covered", each.measured.high >= each.predicted.low &&
                                                      each.measured.low <= each.predicted.high}});
  return json;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

Json summarize_cases(const Json& cases) {
  std::size_t real = 0, decided = 0, right = 0, covered = 0;
  std::vector<double> errors, drifts;
  for (const auto& each : cases) {
    const double rate = each["rate"].get<double>();
    if (rate > 0) drifts.push_back(std::abs(each["rate_again"].get<double>() / rate - 1));
    real += each["is_real"].get<bool>() ? 1 : 0;
    decided += each["verdict"] != "not_enough_evidence" ? 1 : 0;
    right += each["is_right"].get<bool>() ? 1 : 0;
    for (const auto& prediction : each["predictions"]) {
      errors.push_back(prediction["error"].get<double>());
      covered += prediction["is_covered"].get<bool>() ? 1 : 0;
    }
  }
  return {{"cases", cases.size()},
          {"that_do_real_work", real},
          {"decided", decided},
          {"right", right},
          {"predictions", errors.size()},
          {"covered", covered},
          {"median_error", quantile(errors, 0.5)},
          {"error_p95", quantile(errors, 0.95)},
          {"median_drift", quantile(drifts, 0.5)},
          {"drift_p95", quantile(drifts, 0.95)}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cpu", cases, only, json_file;
  double budget_s = 10;
  std::size_t first = 1, number = 0;
  CLI::App app("Holds the doctor against pipelines with known causes");
  app.add_option("--device", device);
  app.add_option("--budget", budget_s);
  app.add_option("--cases", cases, "stated (costs) or real (work); both where not given");
  app.add_option("--only", only, "Cases whose names hold this");
  app.add_option("--first", first, "The first of them to run, from 1");
  app.add_option("--json", json_file);
  CLI11_PARSE(app, argc, argv);
  try {
    Bench bench(device, budget_s);
    Json report = {{"environment", bench.environment()},
                   {"device", device},
                   {"budget_s", budget_s},
                   {"cases", Json::array()}};
    for (const Case& one : doctor_cases(bench.on_gpu())) {
      if (one.name.find(only) == std::string::npos) continue;
      if (!cases.empty() && one.is_real != (cases == "real")) continue;
      if (++number < first) continue;
      Json& results = report["cases"];
      results.push_back(to_json(one, bench.examined(one)));
      std::cout << results.back().dump() << std::endl;
      report["summary"] = summarize_cases(results);
      if (!json_file.empty()) write_file_atomically(json_file, report.dump(2) + "\n");
    }
    std::cout << report["summary"].dump(2) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
