#include "slipstream/engine/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "engine/access.h"
#include "engine/copy_values.h"
#include "engine/evaluation_step.h"
#include "engine/same_images.h"
#include "engine/trainer_impl.h"
#include "slipstream/engine/weights.h"
#include "slipstream/transforms/chain.h"

namespace slipstream {
namespace {

Pipeline build_pipeline(const Pipeline& model, const Pipeline& data,
                        const std::shared_ptr<EvaluationStep>& step, std::size_t batch_size,
                        const EvaluationOptions& given) {
  SampleOptions options = data.options();
  options.batch_size = batch_size;
  options.shuffle = false;
  options.drop_last = false;
  options.sampler = {};
  options.rank = {};
  options.on_bad_sample = given.on_bad_sample;
  const std::vector<NamedOp> transforms = evaluation_transforms(data.transforms());
  require_fields_of_training(model, data, transforms, given);
  Pipeline made(data.dataset(), options);
  for (const NamedOp& each : transforms) made = std::move(made).transform(each.name, each.op);
  for (const Pipeline::NamedStage& each : model.stages())
    made = std::move(made).stage(each.name, each.stage);
  return std::move(made).train(model.train_name(), step);
}

std::size_t evaluation_batch_size(const Pipeline& data) {
  if (data.dataset()->size() == 0) throw Refused("evaluation: the data set has no samples");
  return std::min(data.options().batch_size, data.dataset()->size());
}

/// Puts modules into evaluation mode, with their averaged weights, and restores modes and weights
/// at the end.
class Evaluating {
 public:
  explicit Evaluating(const TrainStep& step) {
    const at::NoGradGuard no_gradients;
    std::map<std::string, at::Tensor> own;
    for (const NamedTensor& each : named_tensors(step))
      own.emplace(each.name, each.tensor.detach());
    std::vector<at::Tensor> averages;
    for (const NamedTensor& average : step.averaged()) {
      const auto found = own.find(average.name);
      if (found == own.end()) continue;
      averages.push_back(average.tensor);
      own_.push_back(found->second);
      kept_.push_back(found->second.clone());
    }
    for (const NamedModule& each : step.modules())
      for (const auto& module : each.module->modules())
        modes_.emplace_back(module, module->is_training());
    for (const NamedModule& each : step.modules()) each.module->eval();
    for (std::size_t i = 0; i < own_.size(); ++i) copy_values(own_[i], averages[i]);
  }
  ~Evaluating() {
    try {
      restore();
    } catch (...) {
      // An exception that is already propagating, or the next use of the device, reports the error.
    }
  }
  /// Restores modes and weights. An exception of a module's train() is rethrown only after
  /// everything has been restored.
  void restore() {
    if (std::exchange(is_back_, true)) return;
    const at::NoGradGuard no_gradients;
    std::exception_ptr raised;
    const auto attempt = [&](const auto& act) {
      try {
        act();
      } catch (...) {
        if (!raised) raised = std::current_exception();
      }
    };
    for (std::size_t i = 0; i < own_.size(); ++i) attempt([&] { copy_values(own_[i], kept_[i]); });
    // train() also changes the modes of all submodules. modules() lists a submodule after each
    // module that contains it, so setting modes in this order leaves every module with its own
    // mode.
    for (auto& [module, mode] : modes_) attempt([&, of = module, to = mode] { of->train(to); });
    if (raised) std::rethrow_exception(raised);
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  bool is_back_ = false;
  std::vector<at::Tensor> own_, kept_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

}  // namespace

struct Evaluator::Impl {
  Impl(const Pipeline& model, const Pipeline& data, Context& context,
       const Plan::Numerics& numerics, const EvaluationOptions& options)
      : model_step(model.train_step()),
        step(std::make_shared<EvaluationStep>(model_step, model.metrics(), data.dataset()->size(),
                                              evaluation_batch_size(data))),
        trainer(build_pipeline(model, data, step, evaluation_batch_size(data), options), context,
                numerics) {
    if (options.same_images) require_range_of_training(model, trainer.pipeline(), options);
  }

  RunResult run_once(const Plan& plan, RunOptions options) {
    const std::uint64_t batches = trainer.pipeline().batches_per_epoch();
    seek_to_start();
    options.steps = batches;
    options.digest = false;
    options.check_loss = false;
    options.wants_state = {};
    Evaluating evaluating(*model_step);
    step->begin(trainer.context().device());
    RunResult result = trainer.run(plan, options);
    evaluating.restore();
    return result;
  }

  EvaluationResult run(const Plan& plan, const RunOptions& options) {
    step->set_keep({});
    EvaluationResult result;
    result.run = run_once(plan, options);
    result.interrupted = result.run.interrupted;
    if (result.interrupted) return result;
    result.samples = step->samples();
    result.scores = step->scores();
    for (std::size_t i = 0; i < step->metrics().size(); ++i)
      result.counts.emplace(step->metrics()[i].name, step->counts(i));
    return result;
  }

  /// Goes to the start of the epoch, after an evaluation that ended early. Restarting is safe
  /// because nothing here is a state of training.
  void seek_to_start() { Access::of(trainer).restart(); }

  std::shared_ptr<TrainStep> model_step;
  std::shared_ptr<EvaluationStep> step;
  Trainer trainer;
};

Evaluator::Evaluator(const Pipeline& model, const Pipeline& data, Context& context,
                     const Plan::Numerics& numerics, const EvaluationOptions& options)
    : impl_(std::make_unique<Impl>(model, data, context, numerics, options)) {}
Evaluator::~Evaluator() = default;

const Pipeline& Evaluator::pipeline() const { return impl_->trainer.pipeline(); }

EvaluationResult Evaluator::run(const Plan& plan, const RunOptions& options) {
  return impl_->run(plan, options);
}

RunResult Evaluator::predict(
    const Plan& plan, const std::function<std::vector<at::Tensor>(const at::Tensor& output)>& keep,
    const std::function<void(std::uint64_t first_sample, const std::vector<at::Tensor>& kept)>&
        take,
    const RunOptions& given) {
  RunOptions options = given;
  const Trainer& trainer = impl_->trainer;
  options.on_outputs = [&](std::uint64_t step, const std::vector<at::Tensor>& kept) {
    take(step % trainer.pipeline().batches_per_epoch() * trainer.pipeline().options().batch_size,
         kept);
  };
  impl_->step->set_keep(keep);
  return impl_->run_once(plan, options);
}

}  // namespace slipstream
