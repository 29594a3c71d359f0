#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/measured.h"
#include "cli/option_text.h"
#include "core/files.h"
#include "core/number_text.h"
#include "report/progress_line.h"
#include "training/trace_run.h"

namespace slipstream {
namespace {

struct TraceVerb {
  MeasuredOptions measured;
  TraceOptions options;
  std::string out;
};

std::string encode_trace(const Trace& trace, const TraceVerb& verb, const WorkloadInfo& workload) {
  TraceFacts facts = trace.facts;
  facts.emplace_back("version", std::string(slipstream_version()));
  facts.emplace_back("workload", workload.name);
  for (const auto& [name, value] : workload.options)
    facts.emplace_back("workload." + name, to_text(value));
  facts.emplace_back("device", verb.measured.common.device);
  std::string json = trace_json(*trace.recorder, facts);
  return verb.out.ends_with(".gz") ? gzipped(json) : json;
}

void print(const Trace& trace, const TraceVerb& verb, const Plan& plan,
           const Environment& environment) {
  if (trace.run.interrupted) std::cout << "interrupted after ";
  std::cout << format_count(trace.run.steps, "step");
  if (const Measured rate = reportable_rate(trace.run.steps_per_second); rate.n > 0)
    std::cout << ", " << rounded_text(rate.value, 4) << " steps/s";
  std::cout << ", plan " << plan.schedule.mode << ", input " << verb.options.input << "\n"
            << trace_text(summarize_trace(*trace.recorder));
  if (!trace.no_kernels.empty()) std::cout << trace.no_kernels << "\n";
  std::cout << warning_lines(environment);
}

int trace(const TraceVerb& verb, const Cli& cli) {
  refuse_replaced_files(
      {.files = {{"--out", verb.out}}, .folders = verb.measured.common.output_folders()},
      verb.measured.common.inputs(verb.measured.plan));
  OutputFile out(verb.out);
  MeasuredRun run(verb.measured);
  Trainer trainer = run.trainer();
  ProgressLine line(std::cerr, {[] { return terminal_columns(2); }});
  TraceOptions options = verb.options;
  options.stop = cli.interrupted;
  options.progress = [&](const Progress& progress) { line.update(progress); };
  const Trace traced = run_trace(trainer, run.plan(), options);
  line.finish();
  print(traced, verb, run.plan(), run.environment());
  write_all({{&out, encode_trace(traced, verb, run.workload())}});
  std::cout << "wrote " << verb.out << "; Perfetto (ui.perfetto.dev) opens it\n";
  return traced.run.interrupted ? kInterrupted : kDone;
}

}  // namespace

void add_trace(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<TraceVerb>();
  CLI::App* command = app.add_subcommand(
      "trace",
      "Records a trace of loader threads, lanes (streams or threads) and the GPU, for Perfetto");
  verb->measured.add_to(*command, cli);
  command->add_option("--steps", verb->options.steps, "Steps to trace")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command
      ->add_option("--input", verb->options.input,
                   "Source of batches: loader, host (a cache in page-locked memory) or device (a "
                   "cache in device memory)")
      ->check([](const std::string& input) {
        return input == "loader" || input == "host" || input == "device"
                   ? ""
                   : unknown_name("input", input, {"loader", "host", "device"});
      })
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command
      ->add_option("--out", verb->out,
                   "The file to write: Chrome trace JSON, compressed if the name ends in .gz")
      ->required()
      ->group(kOutputGroup);
  verb->measured.common.add_workloads_own_to(*command);
  command->callback([=, &cli, &chosen] { chosen = [verb, &cli] { return trace(*verb, cli); }; });
}

}  // namespace slipstream
