#include "cli/evaluated.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/checkpoint_flags.h"
#include "cli/recorded_options.h"

namespace slipstream {
namespace {

std::vector<CLI::Option*> options_of_training(CLI::App& verb) {
  std::vector<std::string> names = {"accumulate", "clip-grad", "ema-decay", "on-nan",
                                    "shuffle",    "drop-last", "sampler",   "on-bad-sample"};
  for (const Option& option : optimizer_options()) names.push_back(option.name);
  std::vector<CLI::Option*> options;
  for (const std::string& name : names)
    for (CLI::Option* option : verb.get_options())
      if (option->check_lname(name)) options.push_back(option);
  return options;
}

EvaluatedOptions with_recorded(EvaluatedOptions options) {
  take_recorded(options.weights, options.overrides, options.common);
  return options;
}

}  // namespace

void EvaluatedOptions::add_to(CLI::App& verb, const Cli& cli) {
  common.add_to(verb, cli);
  verb.add_option("--weights", weights,
                  "Weights of the model: a .safetensors file or a checkpoint (its average of the "
                  "weights, if it has one)")
      ->required()
      ->group(kTrainingGroup);
  verb.add_flag("--weights-partial", weights_partial,
                "Loads only the weights whose names and shapes match")
      ->group(kTrainingGroup);
  verb.add_flag("--override", overrides,
                "Accepts options that differ from those the checkpoint was trained with")
      ->group(kTrainingGroup);
  verb.add_option("--plan", plan, "Plan: serial, pipelined, or a JSON file")
      ->capture_default_str()
      ->group(kScheduleGroup);
  common.add_batch_to(verb, transforms_device);
}

NamedPaths EvaluatedOptions::inputs() const {
  NamedPaths paths = common.inputs(plan);
  for (auto& each : checkpoints_at("--weights", weights)) paths.push_back(std::move(each));
  return paths;
}

void EvaluatedOptions::hide_options_of_training(CLI::App& verb) {
  for (CLI::Option* option : options_of_training(verb)) option->group("");
}

void EvaluatedOptions::refuse_options_of_training(CLI::App& verb) {
  std::vector<std::string> problems;
  for (const CLI::Option* option : options_of_training(verb))
    if (option->count() > 0)
      problems.push_back(option->get_name() + " has no effect on " + verb.get_name() +
                         ", which does not train and uses each sample once; leave it out");
  refuse(problems);
}

EvaluatedRun::EvaluatedRun(const EvaluatedOptions& given, const Cli& cli)
    : EvaluatedRun(cli, with_recorded(given)) {}

EvaluatedRun::EvaluatedRun(const Cli& cli, const EvaluatedOptions& options)
    : cli_(cli),
      context_(options.common.device),
      environment_(collect_environment(context_)),
      line_(std::cerr, {[] { return terminal_columns(2); }}) {
  auto [pipeline, workload] = options.common.declare();
  workload_ = std::move(workload);
  print_remarks(*pipeline.dataset());
  CheckpointFlags weights;
  weights.weights = options.weights;
  weights.weights_partial = options.weights_partial;
  const Options& given = options.common.options;
  if (given.needs_labels && !options.overrides)
    require_recorded_classes(*pipeline.dataset(), given);
  if (!given.needs_labels && given.has("classes-from"))
    weights.hint =
        "\nif the data do not contain the number of classes: give --classes or --classes-from";
  weights.load_weights_into(pipeline);
  numerics_ = options.common.numerics(context_.kind());
  if (!is_plan_mode(options.plan))
    numerics_ = options.common.plan_file(options.plan, context_).numerics;
  evaluator_ = std::make_unique<Evaluator>(pipeline, pipeline, context_, numerics_);
  plan_ = options.common.build_plan(options.plan, options.transforms_device, evaluator_->pipeline(),
                                    context_);
  model_ = std::move(pipeline);
}

Preview EvaluatedRun::preview(const PreviewFlag& flag, OutputFile& file) {
  return {flag, file, *model_, *model_, context_, numerics_};
}

RunOptions EvaluatedRun::options() {
  RunOptions run;
  run.stop = cli_.interrupted;
  run.progress = [this](const Progress& progress) { line_.update(progress); };
  return run;
}

}  // namespace slipstream
