#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/evaluated.h"
#include "cli/prediction_files.h"
#include "core/number_text.h"
#include "report/report.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMostNamedClasses = 5;
constexpr std::int64_t kMostClassesOfMasks = 256;

struct PredictVerb {
  EvaluatedOptions evaluated;
  std::string out;
};

/// Of batch x classes: the most probable classes, probabilities and numbers. Of batch x classes x
/// height x width: the class of each pixel.
std::vector<at::Tensor> kept_of(const at::Tensor& output) {
  if (output.dim() == 4 && output.size(1) <= kMostClassesOfMasks)
    return {output.argmax(1).to(at::kByte)};
  if (output.dim() != 2)
    throw Error("an output of " + c10::str(output.sizes()) +
                " cannot be written: predictions are classes (batch x classes) or masks (batch x "
                "at most 256 classes x height x width)");
  const std::int64_t count = std::min(kMostNamedClasses, output.size(1));
  const auto [probabilities, classes] = at::topk(at::softmax(output.to(at::kFloat), 1), count, 1);
  return {probabilities, classes};
}

void take(PredictionFiles& files, std::uint64_t first, const std::vector<at::Tensor>& kept) {
  for (std::int64_t i = 0; i < kept.front().size(0); ++i) {
    const std::uint64_t sample = first + static_cast<std::uint64_t>(i);
    const at::Tensor of_sample = kept.front()[i];
    if (kept.size() == 1) {
      const at::Tensor mask = of_sample.contiguous();
      files.add_mask(sample,
                     {reinterpret_cast<const std::byte*>(mask.const_data_ptr<std::uint8_t>()),
                      DType::uint8,
                      {mask.size(0), mask.size(1)}});
      continue;
    }
    std::vector<std::pair<std::int64_t, float>> classes;
    for (std::int64_t k = 0; k < of_sample.size(0); ++k)
      classes.emplace_back(kept[1][i][k].item<std::int64_t>(), of_sample[k].item<float>());
    files.add_classes(sample, classes);
  }
}

int predict(const PredictVerb& verb, const Cli& cli) {
  EvaluatedRun run(verb.evaluated, cli);
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
  print_skipped(result.skipped.samples);
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
  options->evaluated.common.add_workloads_own_to(*verb);
  verb->callback(
      [=, &cli, &chosen] { chosen = [options, &cli] { return predict(*options, cli); }; });
}

}  // namespace slipstream
