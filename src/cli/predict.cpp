#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/checkpoint_flags.h"
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
  const std::string& preview = verb.preview.path;
  verb.preview.check(verb.evaluated.common.inputs());
  refuse_same_files({{"--preview", preview}}, verb.evaluated.common.inputs());
  if (!preview.empty() && lies_in(preview, verb.out))
    throw Refused("--preview " + preview + " lies in the folder of --out, " + verb.out +
                  ", whose files are called as the samples are: write it elsewhere");
}

/// Predictions need none.
EvaluatedOptions without_labels(EvaluatedOptions options) {
  Options& given = options.common.options;
  given.needs_labels = false;
  take_classes_of(options.weights, given);
  return options;
}

void take(PredictionFiles& files, std::uint64_t first, const std::vector<at::Tensor>& kept) {
  std::uint64_t sample = first;
  for (const Prediction& each : predictions_in(kept)) {
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
      run.plan(), kept_of,
      [&](std::uint64_t first, const std::vector<at::Tensor>& kept) { take(files, first, kept); },
      run.options());
  run.finish();
  if (result.interrupted) std::cout << "interrupted: ";
  std::cout << "predictions of " << count_of(files.written(), "sample") << " in " << verb.out
            << "\n";
  print_skipped(result.skipped);
  preview.write(cli.interrupted);
  return result.interrupted ? kInterrupted : kDone;
}

}  // namespace

void add_predict(CLI::App& app, Cli& cli, Verb& chosen) {
  auto options = std::make_shared<PredictVerb>();
  CLI::App* verb = app.add_subcommand("predict", "Writes what a model makes of a data set");
  options->evaluated.add_to(*verb, cli);
  verb->add_option("--out", options->out,
                   "A new folder: masks as PNG files, classes as predictions.jsonl")
      ->required()
      ->group(kOutputGroup);
  options->preview.add_to(*verb);
  options->evaluated.common.add_workloads_own_to(*verb);
  verb->callback(
      [=, &cli, &chosen] { chosen = [options, &cli] { return predict(*options, cli); }; });
}

}  // namespace slipstream
