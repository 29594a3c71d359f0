#include "training/bench.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/common_options.h"
#include "core/files.h"

namespace slipstream {
namespace {

struct BenchVerb {
  CommonOptions common;
  BenchOptions options;
  std::string json, svg;
};

void check(const BenchVerb& verb) {
  refuse_replaced_files({.files = {{"--json", verb.json}, {"--svg", verb.svg}},
                         .folders = verb.common.output_folders()},
                        verb.common.inputs());
  for (const std::string& plan : verb.options.plans)
    if (!is_plan_mode(plan)) throw Refused(unknown_plan(plan));
}

BenchReport make_report(const BenchVerb& verb, const BenchOptions& options,
                        const Context& context) {
  return {collect_environment(context),
          {.name = verb.common.workload, .options = {}},
          {std::string(to_string(options.numerics.precision)), options.numerics.deterministic,
           options.loader.num_workers, options.steps, options.seconds, options.repeats},
          {}};
}

int bench(const BenchVerb& verb, const Cli& cli) {
  check(verb);
  OutputFile json(verb.json), svg(verb.svg);
  Context context(verb.common.device);
  cli.check_interrupt();
  BenchOptions options = verb.options;
  // If there are several values, use the one that needs the most workers.
  const auto& devices = options.transforms_devices;
  for (const std::string& device : devices) check_transforms_device(device, context.kind());
  const bool has_cpu =
      devices.empty() || std::find(devices.begin(), devices.end(), "cpu") != devices.end();
  options.loader = verb.common.loader(context, has_cpu ? "cpu" : devices.front(), [&] {
    return verb.common.declare(options.batch_sizes.front()).pipeline;
  });
  options.numerics = verb.common.numerics(context.kind());
  options.stop = cli.interrupted;
  options.log_line = [](const std::string& line) { std::cerr << printable(line) << "\n"; };

  BenchReport report = make_report(verb, options, context);
  const auto make = [&](std::size_t batch_size) {
    Declared declared = verb.common.declare(batch_size);
    if (report.workload.options.empty()) print_remarks(*declared.pipeline.dataset());
    report.workload = std::move(declared.info);
    return std::move(declared.pipeline);
  };
  report.rows = run_bench(context, make, options);
  std::erase_if(report.workload.options, [](const auto& one) { return one.first == "batch_size"; });
  std::cout << (report.rows.empty() ? "interrupted before anything was measured\n"
                                    : printable(bench_table(report)));
  write_all({{&json, bench_report_json(report)}, {&svg, bench_svg(report)}});
  if (cli.interrupted()) return kInterrupted;
  for (const BenchRow& row : report.rows)
    if (!row.error.empty()) return kFailed;
  return kDone;
}

/// Refuses options before the word "loader", which would have no effect.
void refuse_given(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0)
      throw Refused(option->get_name() + " of bench has no effect on bench loader; give the " +
                    "options of bench loader, after the word 'loader' (see bench loader --help)");
}

}  // namespace

void add_bench(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<BenchVerb>();
  CLI::App* command = app.add_subcommand("bench",
                                         "Measures the rates of plans, and of each of their lanes "
                                         "(streams or threads) alone, by batch size");
  verb->common.add_to(*command, cli);
  command->get_option("workload")->required(false);
  add_bench_loader(*command, cli, chosen);
  command->add_option("--batch-size", verb->options.batch_sizes, "Batch sizes, comma-separated")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kTrainingGroup);
  command
      ->add_option("--plan", verb->options.plans,
                   "Plans, comma-separated: serial, pipelined, graph")
      ->delimiter(',')
      ->capture_default_str()
      ->group(kScheduleGroup);
  command
      ->add_option("--transforms-device", verb->options.transforms_devices,
                   "Where transforms run, comma-separated: cpu (loader threads) or cuda (the GPU)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(transforms_device_problem)
      ->capture_default_str()
      ->group(kScheduleGroup);
  command
      ->add_option("--input", verb->options.input,
                   "Source of batches: loader, host (a cache in page-locked memory) or device (a "
                   "cache in device memory)")
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command->add_option("--steps", verb->options.steps, "Maximum number of steps of each measurement")
      ->check(at_least(2))
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command
      ->add_option(
          "--seconds", verb->options.seconds,
          "Maximum time of each measurement, in seconds; a few steps are measured in any case")
      ->check(above_zero)
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command
      ->add_option("--repeats", verb->options.repeats,
                   "Number of rounds; each measures everything once")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command->add_option("--json", verb->json, "Writes the report to this file")->group(kOutputGroup);
  command->add_option("--svg", verb->svg, "Writes plots to this file")->group(kOutputGroup);
  verb->common.add_workloads_own_to(*command);
  command->callback([=, &cli, &chosen] {
    if (command->got_subcommand("loader")) return refuse_given(*command);
    if (verb->common.workload.empty()) throw CLI::RequiredError("workload (or loader)");
    const auto own_size = verb->common.defaults.batch_size;
    if (own_size && command->count("--batch-size") == 0) verb->options.batch_sizes = {*own_size};
    chosen = [verb, &cli] { return bench(*verb, cli); };
  });
}

}  // namespace slipstream
