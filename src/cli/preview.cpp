#include "cli/preview.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <iterator>

#include "cli/predictions.h"
#include "core/number_text.h"
#include "report/sheet_page.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

constexpr std::size_t kSamples = 8;

/// Creates the pipeline of the preview's samples, with the transforms of `data`.
Pipeline make_preview_data(const Pipeline& data) {
  const std::size_t size = data.dataset()->size(), count = std::min(kSamples, size);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < count; ++i) indices.push_back(i * size / count);
  SampleOptions options = data.options();
  options.sampler = {};
  options.rank = {};
  Pipeline made(subset(data.dataset(), std::move(indices)), options);
  for (const NamedOp& each : data.transforms())
    made = std::move(made).transform(each.name, each.op);
  return made;
}

}  // namespace

void PreviewFlag::add_to(CLI::App& verb) {
  verb.add_option("--preview", path,
                  "Writes some samples with the model's predictions to this file: .png for the "
                  "images alone, .html for a page with captions")
      ->group(kOutputGroup);
}

void PreviewFlag::check() const { require_name_of_sheet({"--preview", path}); }

Preview::Preview(const PreviewFlag& flag, OutputFile& file, const Pipeline& model,
                 const Pipeline& data, Context& context, const Plan::Numerics& numerics)
    : path_(flag.path), file_(file) {
  if (path_.empty()) return;
  const Pipeline some = make_preview_data(data);
  evaluator_ = std::make_unique<Evaluator>(model, some, context, numerics);
  const Pipeline& pipeline = evaluator_->pipeline();
  plan_ = placed_plan(pipeline, "serial", "cpu", context.kind(), {}, numerics);
  try {
    sheet_ = std::make_unique<PreviewSheet>(
        pipeline.dataset(), pipeline.transforms(),
        PreviewSheetOptions{.decode = some.options().decode, .seed = some.options().seed});
  } catch (const Refused& refused) {
    throw Refused("--preview: " + std::string(refused.what()));
  }
}

void Preview::write(const std::function<bool()>& interrupted) {
  if (path_.empty()) return;
  try {
    std::vector<Prediction> predictions;
    const auto take = [&](std::uint64_t, const std::vector<at::Tensor>& kept) {
      std::ranges::move(predictions_in(kept), std::back_inserter(predictions));
    };
    RunOptions run;
    run.stop = interrupted;
    const RunResult result = evaluator_->predict(plan_, to_prediction, take, run);
    if (result.interrupted || interrupted()) {
      std::cout << "interrupted before the preview was complete: " << path_ << " is not written\n";
      return;
    }
    file_.write(sheet_file(sheet_->sheet(predictions), "Predictions", path_));
    std::cout << "preview of " << format_count(predictions.size(), "sample") << " in " << path_
              << "\n";
  } catch (const Error& error) {
    throw Error("--preview " + path_ + " is not written: " + error.what());
  }
}

}  // namespace slipstream
