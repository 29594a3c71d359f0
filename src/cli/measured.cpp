#include "cli/measured.h"

#include <CLI/CLI.hpp>

namespace slipstream {

void MeasuredOptions::add_to(CLI::App& verb, const Cli& cli) {
  common.add_to(verb, cli);
  verb.add_option("--plan", plan, "Plan: serial, pipelined, graph, or a JSON file")
      ->capture_default_str()
      ->group(kScheduleGroup);
  common.add_batch_to(verb, transforms_device);
}

MeasuredRun::MeasuredRun(const MeasuredOptions& options)
    : context_(options.common.device),
      environment_(collect_environment(context_)),
      declared_(options.common.declare()) {
  print_remarks(*declared_.pipeline.dataset());
  plan_ = options.common.build_plan(options.plan, options.transforms_device, declared_.pipeline,
                                    context_);
}

Trainer MeasuredRun::trainer() {
  return Trainer(std::move(declared_.pipeline), context_, plan_.numerics);
}

}  // namespace slipstream
