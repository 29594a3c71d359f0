#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// What an evaluation found.
struct EvaluationResult {
  std::uint64_t samples = 0;  ///< that were evaluated; 0 where it ended early
  bool interrupted = false;   ///< whether it ended early; there are no scores then
  /// "loss", where there is one, the mean over samples; "accuracy", where the loss counts correct
  /// labels; then the pipeline's metrics in order.
  std::vector<std::pair<std::string, double>> scores;
  std::map<std::string, at::Tensor> counts;  ///< of the metrics, by name, in host memory
  RunResult run;                             ///< the run; its losses are those of the batches
};

/// Options of an Evaluator.
struct EvaluationOptions {
  /// skip: bad samples are left out, and RunResult::skipped names them. stop: the first one ends
  /// the evaluation with an error. Outputs of predict() are in the order of the data set, so it
  /// needs `stop`.
  OnBadSample on_bad_sample = OnBadSample::stop;
  /// Whether images must have the shape of those in training, and values of about the same range.
  /// Their dtype must be the same either way. A few samples are read to compare ranges.
  bool same_images = false;
  /// How a user allows other images, for messages: "give ...".
  std::string allowed_by = {};
};

/// Evaluates a model: a pipeline in which nothing trains, under the same plans and with the same
/// speed as one that does. Samples come in the order of the data set, each once; what fills up the
/// last batch does not count. Bad samples end it with an error or are left out
/// (EvaluationOptions::on_bad_sample), whatever the pipeline says: another sample in their place
/// would count twice. Results do not depend on the plan or the number of workers.
class Evaluator {
 public:
  /// Evaluates the stages, the last stage and the metrics of `model` on the data set of `data` and
  /// evaluation_transforms() of its transforms; both may be the same pipeline. Modules stay where
  /// they are and are shared. `numerics` are those of the trainer of these modules, if there is
  /// one. Throws Refused for what cannot be evaluated. `context` must outlive this.
  Evaluator(const Pipeline& model, const Pipeline& data, Context& context,
            const Plan::Numerics& numerics, const EvaluationOptions& options = {});
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// The pipeline that is run, for making plans: its last stage has the name of the model's.
  const Pipeline& pipeline() const;
  /// Evaluates the whole data set, with the averages of weights where the last stage keeps any
  /// (TrainStep::averaged()). Modules are in evaluation mode meanwhile, and have their weights and
  /// modes back afterwards. Of `options` those of steps, digest and losses are ignored. Throws as
  /// Trainer::run() does. No run of a trainer with the same modules may go on meanwhile.
  EvaluationResult run(const Plan& plan, const RunOptions& options = {});
  /// Computes what the model makes of every sample, as run() does, without losses and metrics, so
  /// that samples need no labels. `keep` makes of the outputs of a batch what is kept; it is called
  /// on the stream of the last stage and must not wait for the device; the first dimension of the
  /// tensors is the samples. `take` gets them in host memory, batch by batch in the order of the
  /// data set, with the number of the first sample, on the thread that calls Progress.
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
