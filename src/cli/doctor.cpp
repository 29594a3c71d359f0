#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "cli/verbs.h"
#include "core/seconds_since.h"
#include "slipstream/doctor.h"
#include "slipstream/doctor_report.h"
#include "slipstream/files.h"
#include "slipstream/progress_line.h"

namespace slipstream {
namespace {

struct DoctorVerb {
  CommonOptions common;
  std::string plan = "pipelined";
  std::string augment = "cpu";
  double budget_s = 60;
  bool apply = false;
  double min_share = 0;              ///< 0: no gate
  std::vector<std::string> what_if;  ///< STEP=MS
  std::string html, json, plan_out, baseline;
};

/// Of the time, where changes are tried out.
constexpr double kToExamine = 0.7;

void check(const DoctorVerb& verb) {
  std::vector<std::string> problems;
  if (!verb.plan_out.empty() && !verb.apply)
    problems.emplace_back("--plan-out writes the plan that --apply makes: give --apply too");
  refuse(problems);
  refuse_same_files({{"--html", verb.html}, {"--json", verb.json}, {"--plan-out", verb.plan_out}});
}

/// Returns whether there was anything to apply.
bool apply(Trainer& trainer, const Plan& plan, const DoctorOptions& options, DoctorReport& report) {
  const Remedy remedy = remedy_of(report.observed, report.diagnosis);
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

Supposition supposition(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto ms = equals == std::string::npos ? std::nullopt : number_in(text.substr(equals + 1));
  if (!ms || equals == 0 || !(*ms >= 0 && *ms <= 1e3 * Supposition::kMostSeconds))
    throw Refused("--what-if " + text + ": give STEP=MILLISECONDS, for example decode=2.5");
  return {text.substr(0, equals), 1e-3 * *ms};
}

/// Each alone, and all together.
void suppose(const std::vector<Supposition>& supposed, DoctorReport& report) {
  const auto add = [&](const std::vector<Supposition>& some) {
    report.diagnosis.changes.push_back(what_if(report.observed, report.diagnosis, some));
  };
  for (const Supposition& each : supposed) add({each});
  if (supposed.size() > 1) add(supposed);
  std::stable_sort(report.diagnosis.changes.begin(), report.diagnosis.changes.end(),
                   [](const Change& a, const Change& b) { return a.gain.value > b.gain.value; });
}

/// What is measured just now: on a terminal one live line, elsewhere a line each.
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

/// What the gates say: nothing where none was asked for.
int gate(const DoctorReport& report, const DoctorVerb& verb, const std::string& baseline) {
  int code = kDone;
  if (!verb.baseline.empty()) {
    const BaselineComparison comparison = against_baseline(report, baseline);
    std::cout << baseline_text(comparison);
    if (is_worse(comparison)) code = kNo;
  }
  if (verb.min_share > 0) {
    const Measured& share = report.diagnosis.share;
    const bool is_judged = share.n > 0 && report.diagnosis.verdict != Culprit::not_enough_evidence;
    if (is_judged && share.high < verb.min_share) {
      std::cout << "below --min-share " << verb.min_share << ": the pipeline delivers "
                << share.value << " of the ceiling\n";
      return kNo;
    }
    const bool is_surely_enough = share.n > 0 && share.low >= verb.min_share;
    if (code == kDone && !is_judged && !is_surely_enough) {
      std::cout << "--min-share " << verb.min_share
                << " is undecided: " << printable(report.diagnosis.reason) << "\n";
      return kUndecided;
    }
  }
  return code;
}

int doctor(const DoctorVerb& verb, const Cli& cli) {
  check(verb);
  std::vector<Supposition> supposed;
  for (const std::string& text : verb.what_if) supposed.push_back(supposition(text));
  const std::string baseline = verb.baseline.empty() ? "" : read_text(verb.baseline);
  if (!verb.baseline.empty()) check_baseline(baseline);
  OutputFile html(verb.html), json(verb.json), plan_out(verb.plan_out);
  Context context(verb.common.device);
  DoctorReport report;
  report.environment = environment_of(context);
  report.workload = verb.common.info();
  report.workload.options.emplace_back("plan", verb.plan);
  report.workload.options.emplace_back("augment", verb.augment);
  report.budget_s = verb.budget_s;
  Pipeline pipeline = make_pipeline(cli.workloads, verb.common.workload, verb.common.options);
  const Plan plan = verb.common.plan_of(verb.plan, verb.augment, pipeline, context);
  const auto steps = pipeline.host_steps(plan.schedule.loader.on_device);
  for (const Supposition& each : supposed)
    if (std::find(steps.begin(), steps.end(), each.step) == steps.end())
      throw Refused("--what-if: " + unknown_name("host step", each.step, steps));
  Trainer trainer(std::move(pipeline), context, plan.numerics);

  StatusLine line;
  DoctorOptions options;
  options.budget_s = verb.budget_s * (verb.apply ? kToExamine : 1);
  options.stop = cli.interrupted;
  options.say = [&](const std::string& what) { line.show(what); };
  Examination examination = examine(trainer, plan, options);
  report.observed = std::move(examination.observed);
  report.lanes = std::move(examination.lanes);
  report.seconds = examination.seconds;
  report.diagnosis = diagnose(report.observed);
  if (!report.observed.host.empty()) suppose(supposed, report);
  options.budget_s = verb.budget_s * (1 - kToExamine);
  const bool is_idle =
      verb.apply && !examination.interrupted && !apply(trainer, plan, options, report);
  line.clear();

  report.interrupted = cli.interrupted();
  std::cout << doctor_text(report);
  if (!verb.json.empty()) json.write(doctor_report_json(report));
  if (!verb.html.empty()) html.write(doctor_html(report));
  if (!verb.plan_out.empty()) plan_out.write(to_json(report.outcome ? report.outcome->plan : plan));
  if (is_idle && !report.interrupted)
    std::cout << "nothing to apply: no change that a plan can express is predicted to help\n";
  const int code = gate(report, verb, baseline);
  return report.interrupted ? kInterrupted : code;
}

}  // namespace

void add_doctor(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<DoctorVerb>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Finds what holds training up, what to change, and what that would gain");
  verb->common.add_to(*command, cli);
  command->add_option("--plan", verb->plan, "serial, pipelined, or a JSON file")
      ->capture_default_str();
  verb->common.add_batch_to(*command, verb->augment);
  command->add_option("--budget", verb->budget_s, "Seconds to measure for, about")
      ->check(above_zero)
      ->capture_default_str();
  command->add_flag("--apply", verb->apply,
                    "Applies the changes that a plan can express and measures what they give");
  command->add_option("--plan-out", verb->plan_out, "Writes the changed plan to this file");
  command->add_option("--html", verb->html, "Writes the report as one page to this file");
  command->add_option("--json", verb->json, "Writes the report to this file");
  command
      ->add_option("--min-share", verb->min_share,
                   "Exits with 3 where less than this share of the ceiling is delivered")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--what-if", verb->what_if,
                      "STEP=MS: predicts the rate were this host step to take so long a sample; "
                      "may be repeated");
  command->add_option("--baseline", verb->baseline,
                      "A report of --json: exits with 3 where a figure is worse than there");
  command->callback(
      [verb, &cli, &chosen] { chosen = [verb, &cli] { return doctor(*verb, cli); }; });
}

}  // namespace slipstream
