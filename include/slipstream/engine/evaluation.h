#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Result of an evaluation.
struct EvaluationResult {
  std::uint64_t samples = 0;  ///< samples that were evaluated; 0 if it ended early
  bool interrupted = false;   ///< whether it ended early; `scores` is then empty
  /// "loss", if there is one: the mean over samples. Then "accuracy", if the loss counts correct
  /// labels. Then the pipeline's metrics in order.
  std::vector<std::pair<std::string, double>> scores;
  std::map<std::string, at::Tensor> counts;  ///< counts of the metrics by name, in host memory
  RunResult run;                             ///< the run, with the loss of each batch
};

/// Options of an Evaluator.
struct EvaluationOptions {
  /// Skip: bad samples are left out and listed in RunResult::skipped. stop: the first bad sample
  /// ends the evaluation with an error. predict() requires `stop`, because it returns outputs in
  /// the order of the data set.
  OnBadSample on_bad_sample = OnBadSample::stop;
  /// Whether images must have the same shape as in training, and values of about the same range. A
  /// few samples are read to compare ranges. The dtype must be the same even if this is false.
  bool same_images = false;
  /// The remedy in messages about other images, a text that follows "give ...".
  std::string allowed_by = {};
};

/// Evaluates a model: runs a pipeline in which nothing trains, under the same plans and at the same
/// speed as a training. Samples are taken once each, in the order of the data set. Samples that
/// only complete the last batch do not count. Bad samples end the evaluation with an error or are
/// left out (EvaluationOptions::on_bad_sample). The pipeline's own setting for bad samples is
/// ignored, because a replacement sample would count twice. Results do not depend on the plan or
/// the number of workers.
class Evaluator {
 public:
  /// Prepares to evaluate the stages, the last stage and the metrics of `model` on the data set of
  /// `data`, with evaluation_transforms() of the transforms of `data`. Both arguments may be the
  /// same pipeline. Modules are shared and stay on their device. `numerics` must be those of the
  /// trainer that trains these modules, if there is one. Throws Refused if the pipelines cannot be
  /// evaluated. `context` must outlive this object.
  Evaluator(const Pipeline& model, const Pipeline& data, Context& context,
            const Plan::Numerics& numerics, const EvaluationOptions& options = {});
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Returns the pipeline that is run, to make plans for it. Its last stage has the name of the
  /// model's last stage.
  const Pipeline& pipeline() const;
  /// Evaluates the whole data set, with averaged weights if the last stage keeps them
  /// (TrainStep::averaged()). Modules are in evaluation mode during the call; their weights and
  /// modes are restored afterwards. RunOptions::steps, digest and the options of losses are
  /// ignored. Throws as Trainer::run() does. No trainer may run the same modules during the call.
  EvaluationResult run(const Plan& plan, const RunOptions& options = {});
  /// Computes the model's output for every sample, as run() does, but without losses and metrics,
  /// so samples need no labels. `keep` selects or converts what is kept of a batch's output. It is
  /// called on the stream of the last stage and must not wait for the device; the first dimension
  /// of the tensors that it returns is the samples. `take` receives these tensors in host memory,
  /// batch by batch in the order of the data set, with the index of the first sample, on the thread
  /// that calls Progress.
  RunResult predict(const Plan& plan,
                    const std::function<std::vector<at::Tensor>(const at::Tensor& output)>& keep,
                    const std::function<void(std::uint64_t first_sample,
                                             const std::vector<at::Tensor>& kept)>& take,
                    const RunOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
