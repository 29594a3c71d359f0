#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/evaluated.h"
#include "cli/prediction_files.h"
#include "cli/predictions.h"
#include "cli/preview.h"
#include "core/number_text.h"
#include "report/report.h"

namespace slipstream {
namespace {

struct PredictVerb {
  EvaluatedOptions evaluated;
  std::string out;
  PreviewFlag preview;
};

void check_outputs(const PredictVerb& verb) {
  OutputPaths outputs = {.files = {{"--preview", verb.preview.path}},
                         .folders = verb.evaluated.common.output_folders()};
  outputs.folders.emplace_back("--out", verb.out);
  refuse_replaced_files(outputs, verb.evaluated.inputs());
  verb.preview.check();
  const std::string& preview = verb.preview.path;
  if (!preview.empty() && is_inside(preview, verb.out))
    throw Refused("--preview " + preview + " is in the folder of --out, " + verb.out +
                  ", whose files have the names of the samples: write it elsewhere");
}

EvaluatedOptions without_labels(EvaluatedOptions options) {
  options.common.options.needs_labels = false;
  return options;
}

void take(PredictionFiles& files, const Dataset& dataset, std::uint64_t first,
          const std::vector<at::Tensor>& kept) {
  std::uint64_t sample = first;
  for (const Prediction& each : predictions_in(kept)) {
    if (each.is_nan)
      throw Error("the model's output for sample " + std::to_string(sample) + " (" +
                  printable_name(dataset.name(sample)) +
                  ") is NaN: the weights contain NaN, or values overflow; give other weights, or "
                  "--precision fp32");
    if (each.classes.empty())
      files.add_mask(sample, each.mask.view());
    else
      files.add_classes(sample, each.classes);
    ++sample;
  }
}

int predict(const PredictVerb& verb, const Cli& cli) {
  check_outputs(verb);
  OutputFile picture(verb.preview.path);
  EvaluatedRun run(without_labels(verb.evaluated), cli);
  Preview preview = run.preview(verb.preview, picture);
  Evaluator& evaluator = run.evaluator();
  PredictionFiles files(verb.out, *evaluator.pipeline().dataset());
  const RunResult result = evaluator.predict(
      run.plan(), to_prediction,
      [&](std::uint64_t first, const std::vector<at::Tensor>& kept) {
        take(files, *evaluator.pipeline().dataset(), first, kept);
      },
      run.options());
  run.finish();
  if (result.interrupted) std::cout << "interrupted: ";
  std::cout << "predictions of " << format_count(files.written(), "sample") << " in " << verb.out
            << "\n";
  print_skipped(result.skipped);
  preview.write(cli.interrupted);
  return result.interrupted ? kInterrupted : kDone;
}

}  // namespace

void add_predict(CLI::App& app, Cli& cli, Verb& chosen) {
  auto options = std::make_shared<PredictVerb>();
  CLI::App* verb = app.add_subcommand("predict", "Writes a model's predictions for a data set");
  options->evaluated.add_to(*verb, cli);
  verb->add_option("--out", options->out,
                   "A new folder: masks as PNG files, classes as predictions.jsonl")
      ->required()
      ->group(kOutputGroup);
  options->preview.add_to(*verb);
  options->evaluated.common.add_workloads_own_to(*verb);
  EvaluatedOptions::hide_options_of_training(*verb);
  verb->callback([=, &cli, &chosen] {
    EvaluatedOptions::refuse_options_of_training(*verb);
    chosen = [options, &cli] { return predict(*options, cli); };
  });
}

}  // namespace slipstream
