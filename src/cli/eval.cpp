#include <ATen/core/Tensor.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>
#include <memory>

#include "cli/evaluated.h"
#include "cli/input.h"
#include "core/files.h"
#include "core/number_text.h"
#include "report/evaluation_report.h"

namespace slipstream {
namespace {

struct EvalVerb {
  EvaluatedOptions evaluated;
  std::string json;
  PreviewFlag preview;
};

/// Returns the rows of classes, from the first metric that has a confusion matrix.
std::vector<ClassRow> make_class_rows(const EvaluationResult& result, const Pipeline& pipeline) {
  for (const auto& [name, counts] : result.counts) {
    if (counts.dim() != 2 || counts.size(0) != counts.size(1)) continue;
    const auto* values = counts.const_data_ptr<double>();
    return class_rows({values, values + counts.numel()}, pipeline.dataset()->class_names());
  }
  return {};
}

int evaluate(const EvalVerb& verb, const Cli& cli) {
  refuse_replaced_files({.files = {{"--json", verb.json}, {"--preview", verb.preview.path}},
                         .folders = verb.evaluated.common.output_folders()},
                        verb.evaluated.inputs());
  verb.preview.check();
  OutputFile json(verb.json);
  OutputFile picture(verb.preview.path);
  EvaluatedRun run(verb.evaluated, cli);
  Preview preview = run.preview(verb.preview, picture);
  EvaluationResult result = run.evaluator().run(run.plan(), run.options());
  run.finish();
  if (result.interrupted) {
    std::cout << "interrupted after " << result.run.steps << " of "
              << format_count(run.evaluator().pipeline().batches_per_epoch(), "batch") << "\n";
    return kInterrupted;
  }
  EvaluationReport report{
      run.environment(),      run.workload(),
      verb.evaluated.weights, result.samples,
      result.scores,          make_class_rows(result, run.evaluator().pipeline()),
      std::move(result.run),  has_labels(*run.evaluator().pipeline().dataset(), FieldKind::mask)};
  std::cout << printable(evaluation_text(report));
  print_skipped(report.run.skipped);
  std::cout << warning_lines(report.environment);
  write_all({{&json, evaluation_report_json(report)}});
  preview.write(cli.interrupted);
  for (const auto& [name, value] : report.scores)
    if (std::isnan(value))
      throw Error("the score '" + name +
                  "' is NaN: the weights contain NaN, or values overflow; give other weights, or "
                  "--precision fp32");
  return kDone;
}

}  // namespace

void add_eval(CLI::App& app, Cli& cli, Verb& chosen) {
  auto options = std::make_shared<EvalVerb>();
  CLI::App* verb = app.add_subcommand("eval", "Evaluates a model on a data set");
  options->evaluated.add_to(*verb, cli);
  verb->add_option("--json", options->json, "Writes the scores to this file")->group(kOutputGroup);
  options->preview.add_to(*verb);
  options->evaluated.common.add_workloads_own_to(*verb);
  EvaluatedOptions::hide_options_of_training(*verb);
  verb->callback([=, &cli, &chosen] {
    EvaluatedOptions::refuse_options_of_training(*verb);
    chosen = [options, &cli] { return evaluate(*options, cli); };
  });
}

}  // namespace slipstream
