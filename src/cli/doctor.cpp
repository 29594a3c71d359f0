#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "cli/measured.h"
#include "cli/option_text.h"
#include "core/files.h"
#include "core/number_text.h"
#include "core/seconds_since.h"
#include "report/doctor_report.h"
#include "report/progress_line.h"
#include "slipstream/doctor/doctor.h"

namespace slipstream {
namespace {

struct DoctorVerb {
  MeasuredOptions measured;
  double budget_s = 60;
  bool apply = false;
  double min_share = 0;              ///< 0: not given
  std::vector<std::string> what_if;  ///< STEP=MS
  std::string html, json, plan_out, baseline;
};

/// Share of the budget for the examination if --apply measures changes in the rest.
constexpr double kToExamine = 0.7;

void check(const DoctorVerb& verb) {
  std::vector<std::string> problems;
  if (!verb.plan_out.empty() && !verb.apply)
    problems.emplace_back("--plan-out writes the plan that --apply creates: give --apply too");
  refuse(problems);
  NamedPaths inputs = verb.measured.common.inputs(verb.measured.plan);
  inputs.emplace_back("--baseline", verb.baseline);
  refuse_replaced_files(
      {.files = {{"--html", verb.html}, {"--json", verb.json}, {"--plan-out", verb.plan_out}},
       .folders = verb.measured.common.output_folders()},
      inputs);
}

/// Returns whether there was anything to apply.
bool apply(Trainer& trainer, const Plan& plan, const DoctorOptions& options, DoctorReport& report) {
  const Remedy remedy = find_remedy(report.observed, report.diagnosis);
  if (remedy.changes.empty()) return false;
  try {
    report.outcome = try_out(trainer, plan, remedy, report.diagnosis, options);
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error& error) {
    report.observed.warnings.push_back(std::string("the changed plan cannot be run: ") +
                                       error.what());
  }
  return true;
}

AssumedCost supposition(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto ms = equals == std::string::npos ? std::nullopt : number_in(text.substr(equals + 1));
  if (!ms || equals == 0 || !(*ms >= 0 && *ms <= 1e3 * AssumedCost::kMostSeconds))
    throw Refused("--what-if " + text + ": give STEP=MILLISECONDS, for example decode=2.5");
  return {text.substr(0, equals), 1e-3 * *ms};
}

/// Adds predictions for each assumed cost alone, and for all together.
void suppose(const std::vector<AssumedCost>& supposed, DoctorReport& report) {
  const auto add = [&](const std::vector<AssumedCost>& some) {
    report.diagnosis.changes.push_back(what_if(report.observed, report.diagnosis, some));
  };
  for (const AssumedCost& each : supposed) add({each});
  if (supposed.size() > 1) add(supposed);
  rank_changes(report.diagnosis);
}

/// Shows the current measurement: on a terminal as one live line, otherwise as a line for each.
class StatusLine {
 public:
  ~StatusLine() { clear(); }
  void show(const std::string& what) {
    const std::string text =
        std::to_string(std::lround(seconds_since(start_))) + " s: " + printable(what);
    const std::size_t columns = terminal_columns(2);
    if (columns == 0) {
      std::cerr << text << "\n";
      return;
    }
    clear();
    const std::string line = text.substr(0, columns - 1);
    std::cerr << line << std::flush;
    shown_ = line.size();
  }
  void clear() {
    if (shown_ > 0) std::cerr << '\r' << std::string(shown_, ' ') << '\r' << std::flush;
    shown_ = 0;
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t shown_ = 0;
};

int share_gate(const Diagnosis& diagnosis, double least) {
  const ShareGate gate = judge_share(diagnosis, least);
  if (gate == ShareGate::passes) return kDone;
  const Measured& share = diagnosis.share;
  std::cout << (gate == ShareGate::fails ? "below " : "") << "--min-share " << least
            << (gate == ShareGate::fails ? ": " : " is undecided: ");
  if (share.n > 0)
    std::cout << "the pipeline delivers " << rounded_text(share.value, 3)
              << " of the ceiling, from " << rounded_text(share.low, 3) << " to "
              << rounded_text(share.high, 3) << "\n";
  else
    std::cout << printable(diagnosis.reason) << "\n";
  return gate == ShareGate::fails ? kNo : kUndecided;
}

/// Returns the exit code of --min-share and --baseline; 0 if neither was given.
int gate(const DoctorReport& report, const DoctorVerb& verb, const std::string& baseline) {
  int code = kDone;
  if (!verb.baseline.empty()) {
    const BaselineComparison comparison = against_baseline(report, baseline);
    std::cout << baseline_text(comparison);
    if (is_worse(comparison)) code = kNo;
  }
  if (verb.min_share <= 0) return code;
  const int of_share = share_gate(report.diagnosis, verb.min_share);
  return code == kNo ? kNo : of_share;
}

std::vector<AssumedCost> suppositions(const std::vector<std::string>& texts) {
  std::vector<AssumedCost> supposed;
  for (const std::string& text : texts) {
    supposed.push_back(supposition(text));
    for (std::size_t i = 0; i + 1 < supposed.size(); ++i)
      if (supposed[i].step == supposed.back().step)
        throw Refused("--what-if names '" + supposed[i].step + "' twice; give each step one time");
  }
  return supposed;
}

/// Examines, diagnoses and, with --apply, tries changes. Returns whether there was nothing to
/// apply.
bool fill_in(DoctorReport& report, Trainer& trainer, const Plan& plan, const DoctorVerb& verb,
             const std::vector<AssumedCost>& supposed, const Cli& cli) {
  const auto start = std::chrono::steady_clock::now();
  StatusLine line;
  DoctorOptions options;
  options.budget_share = verb.apply ? kToExamine : 1;
  options.budget_s = verb.budget_s * options.budget_share;
  options.stop = cli.interrupted;
  options.log_line = [&](const std::string& what) { line.show(what); };
  Examination examination = examine(trainer, plan, options);
  report.observed = std::move(examination.observed);
  report.lanes = std::move(examination.lanes);
  options.log_line("computing which changes would help");
  report.diagnosis = diagnose(report.observed);
  if (!report.observed.host.empty()) suppose(supposed, report);
  options.budget_s = verb.budget_s * (1 - kToExamine);
  const bool is_idle =
      verb.apply && !examination.interrupted && !apply(trainer, plan, options, report);
  report.seconds = seconds_since(start);
  report.interrupted = cli.interrupted();
  return is_idle;
}

std::string baseline_json(const std::string& path) {
  if (path.empty()) return "";
  try {
    return read_text(path);
  } catch (const Error& error) {
    throw Refused("--baseline: " + std::string(error.what()));
  }
}

int doctor(const DoctorVerb& verb, const Cli& cli) {
  check(verb);
  const std::vector<AssumedCost> supposed = suppositions(verb.what_if);
  const std::string baseline = baseline_json(verb.baseline);
  OutputFile html(verb.html), json(verb.json), plan_out(verb.plan_out);
  MeasuredRun run(verb.measured);
  const Plan& plan = run.plan();
  DoctorReport report;
  report.environment = run.environment();
  report.budget_s = verb.budget_s;
  report.workload = run.workload();
  report.workload.options.emplace_back("plan", verb.measured.plan);
  if (is_plan_mode(verb.measured.plan))
    report.workload.options.emplace_back("transforms_device", verb.measured.transforms_device);
  const auto steps = run.pipeline().host_steps(plan.schedule.loader.on_device);
  for (const AssumedCost& each : supposed)
    if (std::find(steps.begin(), steps.end(), each.step) == steps.end())
      throw Refused("--what-if: " + unknown_name("host step", each.step, steps));
  report.observed.batch_size = run.pipeline().options().batch_size;
  if (!verb.baseline.empty()) (void)against_baseline(report, baseline);
  Trainer trainer = run.trainer();

  const bool is_idle = fill_in(report, trainer, plan, verb, supposed, cli);
  std::cout << doctor_text(report);
  if (is_idle && !report.interrupted)
    std::cout << "nothing to apply: no change that a plan can contain is predicted to help\n";
  const int code = gate(report, verb, baseline);
  write_all({{&json, doctor_report_json(report)},
             {&html, doctor_html(report)},
             {&plan_out, to_json_text(report.outcome ? report.outcome->plan : plan)}});
  return report.interrupted ? kInterrupted : code;
}

}  // namespace

void add_doctor(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<DoctorVerb>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Finds the bottleneck of a training pipeline and predicts the gain of changes");
  verb->measured.add_to(*command, cli);
  command->add_option("--budget", verb->budget_s, "Approximate time for measurements, in seconds")
      ->check(above_zero)
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command
      ->add_flag("--apply", verb->apply,
                 "Applies the changes that a plan can contain and measures their gain")
      ->group(kMeasuringGroup);
  command->add_option("--plan-out", verb->plan_out, "Writes the changed plan to this file")
      ->group(kOutputGroup);
  command->add_option("--html", verb->html, "Writes the report as an HTML page to this file")
      ->group(kOutputGroup);
  command->add_option("--json", verb->json, "Writes the report to this file")->group(kOutputGroup);
  command
      ->add_option("--min-share", verb->min_share,
                   "Exits with 3 if the pipeline reaches less than this share of the ceiling, and "
                   "with 4 if the measurement cannot decide that")
      ->check([](const std::string& text) {
        const double share = number_in(text).value_or(0);
        return share >= 0 && share <= 1 ? "" : text + " is not from 0 to 1";
      })
      ->group(kMeasuringGroup);
  command
      ->add_option("--what-if", verb->what_if,
                   "STEP=MS: predicts the rate if this host step took MS milliseconds per sample; "
                   "may be repeated")
      ->group(kMeasuringGroup);
  command
      ->add_option(
          "--baseline", verb->baseline,
          "An earlier report from --json; exits with 3 if a figure is worse than in that report")
      ->group(kMeasuringGroup);
  verb->measured.common.add_workloads_own_to(*command);
  command->callback(
      [verb, &cli, &chosen] { chosen = [verb, &cli] { return doctor(*verb, cli); }; });
}

}  // namespace slipstream
