#include "slipstream/engine/pipeline.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "engine/batch_lister.h"
#include "loader/running_order.h"

namespace slipstream {

Pipeline::Pipeline(std::shared_ptr<const Dataset> dataset, SampleOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  if (dataset_ == nullptr) throw Refused("pipeline: no data set was given");
  if (options_.batch_size == 0) throw Refused("pipeline: the batch size must be at least 1");
}

void Pipeline::claim(const std::string& name, bool trains) const {
  const auto host = host_steps();
  const auto device = device_steps();
  const auto is = [&](const auto& other) { return name == other; };
  if (name.empty()) throw Refused("pipeline: a step needs a name");
  if (name == "*" || std::any_of(device.begin(), device.end(), is) ||
      (!trains && std::any_of(host.begin(), host.end(), is)))
    throw Refused("pipeline: the step name '" + name +
                  "' is already used; give each step a different name");
  if (!train_name_.empty())
    throw Refused("pipeline: '" + name + "' is declared after the training stage '" + train_name_ +
                  "', which must be the last");
}

Pipeline Pipeline::transform(std::string name, AnyOp op) && {
  claim(name, false);
  op.validate();
  if (op.is_over_batch() && batch_ops_.empty()) claim(kMixStep, false);
  NamedOp next{std::move(name), std::move(op)};
  if (!batch_ops_.take(next)) transforms_.push_back(std::move(next));
  return std::move(*this);
}

Pipeline Pipeline::stage(std::string name, FrozenStage stage) && {
  claim(name, false);
  stages_.push_back({std::move(name), std::move(stage)});
  return std::move(*this);
}

Pipeline Pipeline::train(std::string name, ModuleRef module, std::shared_ptr<Optimizer> optimizer,
                         Loss loss, TrainingOptions options) && {
  claim(name, true);
  std::vector<std::string> problems;
  if (optimizer == nullptr) problems.push_back("stage '" + name + "': no optimizer");
  stage_ = {std::move(module.module), std::move(module.forward_batch), std::move(optimizer),
            std::move(loss), std::move(module.batch_size)};
  training_ = options;
  step_ = slipstream::train_step(stage_, training_);
  check_trains(name, std::move(problems));
  train_name_ = std::move(name);
  return std::move(*this);
}

Pipeline Pipeline::train(std::string name, std::shared_ptr<TrainStep> step) && {
  claim(name, true);
  if (step == nullptr) throw Refused("stage '" + name + "': no training step");
  step_ = std::move(step);
  check_trains(name, {});
  train_name_ = std::move(name);
  return std::move(*this);
}

Pipeline Pipeline::with_training(TrainingOptions options) && {
  if (stage_.module == nullptr)
    throw Refused(
        "pipeline: training options apply to a module with an optimizer and a loss; this pipeline "
        "has a custom training step, or none");
  training_ = options;
  step_ = slipstream::train_step(stage_, training_);
  return std::move(*this);
}

Pipeline Pipeline::metric(Metric metric) && {
  bool is_taken = metric.name.empty() || metric.name == "loss" || metric.name == "accuracy";
  for (const Metric& other : metrics_) is_taken = is_taken || other.name == metric.name;
  if (is_taken)
    throw Refused("pipeline: the name '" + metric.name + "' of a metric is empty or already used");
  metrics_.push_back(std::move(metric));
  return std::move(*this);
}

void Pipeline::check_trains(const std::string& name, std::vector<std::string> problems) const {
  bool trains = false;
  for (const NamedModule& each : step_->modules())
    for (const at::Tensor& parameter : each.module->parameters())
      trains = trains || parameter.requires_grad();
  if (!trains)
    problems.push_back("stage '" + name +
                       "': no parameter requires gradients, so there is nothing to train");
  for (const NamedStage& stage : stages_)
    for (std::string& problem : find_problems(stage.name, stage.stage, *step_))
      problems.push_back(std::move(problem));
  refuse(problems);
}

DataLoaderOptions Pipeline::loader_options(const Plan& plan) const {
  const LoaderPlan& planned = plan.schedule.loader;
  DataLoaderOptions loader{options_, planned};
  loader.wire = wire_formats(plan);
  loader.decode.scaled |= plan.numerics.scaled_decoding;
  loader.held_batches = 1 + plan.schedule.run_ahead;
  loader.on_device = transforms_from(planned.on_device);
  loader.batch_ops = batch_ops_;
  loader.fills_up = lister_ != nullptr;
  return loader;
}

Pipeline Pipeline::listed_by(std::shared_ptr<BatchLister> lister) && {
  lister_ = std::move(lister);
  return std::move(*this);
}

std::uint64_t Pipeline::batches_per_epoch() const {
  if (lister_ != nullptr) return lister_->batches_per_epoch();
  const std::uint64_t samples = dataset_->size();
  const DataLoaderOptions loader = loader_options({});
  std::vector<std::string> problems;
  if (options_.batch_size > samples)
    problems.push_back("batch size " + std::to_string(options_.batch_size) +
                       " is larger than the data set: give at most " + std::to_string(samples));
  check_order(samples, loader, problems);
  refuse(problems);
  return RunningOrder(samples, loader).batches_per_epoch();
}

std::size_t Pipeline::transforms_from(const std::string& on_device) const {
  if (on_device.empty()) return 0;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (transforms_[i].name == on_device) return transforms_.size() - i;
    known.push_back(transforms_[i].name);
  }
  throw Refused("schedule.loader.on_device: " + unknown_name("transform", on_device, known));
}

std::vector<std::string> Pipeline::host_steps(const std::string& on_device) const {
  std::vector<std::string> steps = {"read", "decode"};
  const std::size_t count = transforms_.size() - transforms_from(on_device);
  for (std::size_t i = 0; i < count; ++i) steps.push_back(transforms_[i].name);
  steps.emplace_back("collate");
  return steps;
}

std::vector<std::string> Pipeline::device_steps(const std::string& on_device) const {
  std::vector<std::string> steps = {"copy"};
  if (transforms_from(on_device) > 0) {
    steps.emplace_back(kAugmentStep);
    for (const NamedStage& stage : stages_)
      if (stage.name == kAugmentStep)
        throw Refused(
            "a stage is called 'augment', which is also the name of the step with the device's "
            "transforms: give the stage another name, or leave schedule.loader.on_device empty");
  }
  if (!batch_ops_.empty()) steps.emplace_back(kMixStep);
  for (const NamedStage& stage : stages_) steps.push_back(stage.name);
  if (!train_name_.empty()) steps.push_back(train_name_);
  return steps;
}

}  // namespace slipstream
