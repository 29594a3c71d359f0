#include "engine/supervised_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>

#include "engine/copy_values.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// Returns the index of `tensor`; the number of tensors if it is not among them.
std::size_t place_in(const std::vector<at::Tensor>& tensors, const at::Tensor& tensor) {
  const auto same = [&](const at::Tensor& other) { return other.is_same(tensor); };
  return static_cast<std::size_t>(std::find_if(tensors.begin(), tensors.end(), same) -
                                  tensors.begin());
}

bool has(const std::vector<at::Tensor>& tensors, const at::Tensor& tensor) {
  return place_in(tensors, tensor) < tensors.size();
}

}  // namespace

SupervisedStep::SupervisedStep(TrainStage stage, TrainingOptions options)
    : stage_(std::move(stage)), options_(options) {
  std::vector<std::string> problems;
  if (options.accumulate == 0) problems.emplace_back("accumulate must be at least 1");
  if (!(std::isfinite(options.clip_grad_norm) && options.clip_grad_norm >= 0))
    problems.emplace_back("clip_grad_norm must be finite and not negative");
  if (!(options.ema_decay >= 0 && options.ema_decay < 1))
    problems.emplace_back("ema_decay must be at least 0 and below 1");
  refuse(problems);
  options.schedule.validate();
}

void SupervisedStep::bind(const StepSettings& settings) {
  parameters_.clear();
  tensors_.clear();
  for (const auto& each : stage_.module->named_parameters()) {
    if (!each.value().requires_grad() || has(tensors_, each.value())) continue;
    parameters_.push_back({each.key(), each.value()});
    tensors_.push_back(each.value());
  }
  buffers_ = stage_.module->buffers();
  stage_.optimizer->bind(parameters_);
  written_update_.reset();
  const at::NoGradGuard no_gradients;
  scaler_.reset();
  if (settings.fp16 || options_.on_nan == OnNonFinite::skip)
    scaler_.emplace(settings.fp16, tensors_.front().device());
  accumulated_.clear();
  not_finite_ = at::Tensor();
  if (options_.accumulate > 1) {
    for (const at::Tensor& each : tensors_) accumulated_.push_back(at::zeros_like(each));
    if (scaler_) not_finite_ = at::zeros({}, tensors_.front().options().dtype(at::kFloat));
  }
  make_averages();
}

/// Creates the averages. A tensor with two names has one average, listed under both names.
void SupervisedStep::make_averages() {
  averages_.clear();
  for (auto* list : {&averaged_, &float_averages_, &copied_, &copies_}) list->clear();
  if (options_.ema_decay == 0) return;
  const auto add = [this](const std::string& name, const at::Tensor& tensor) {
    const bool is_float = tensor.is_floating_point();
    std::vector<at::Tensor>& from = is_float ? averaged_ : copied_;
    std::vector<at::Tensor>& to = is_float ? float_averages_ : copies_;
    const std::size_t known = place_in(from, tensor);
    if (known == from.size()) {
      from.push_back(tensor);
      to.push_back(tensor.detach().clone());
    }
    averages_.push_back({name, to[known]});
  };
  for (const auto& each : stage_.module->named_parameters()) add(each.key(), each.value());
  for (const auto& each : stage_.module->named_buffers()) add(each.key(), each.value());
}

at::Tensor SupervisedStep::predict(Batch& batch) {
  const at::Tensor output = stage_.forward(batch, stage_.loss.input);
  return output.scalar_type() == at::kHalf ? output.to(at::kFloat) : output;
}

LossValue SupervisedStep::compute_loss(const at::Tensor& output, const Batch& batch) {
  return stage_.loss.compute(output, batch);
}

void SupervisedStep::backward(const at::Tensor& output, const LossValue& value) {
  const bool has_gradient = value.gradient.defined();
  at::Tensor from = has_gradient ? value.gradient : value.loss;
  if (scaler_ && scaler_->scale().defined()) from = from * scaler_->scale();
  // Dividing each batch's gradient makes the sum over an update an average.
  if (options_.accumulate > 1) from = from / static_cast<double>(options_.accumulate);
  has_gradient ? output.backward(from) : from.backward();
}

LossValue SupervisedStep::differentiate(const Batch& batch) {
  // Forward may set fields; the caller's batch must stay unchanged.
  Batch fields = batch;
  const at::Tensor output = predict(fields);
  LossValue value = compute_loss(output, fields);
  drop_gradients(tensors_);
  backward(output, value);
  check_dense(parameters_);
  return value;
}

LossValue SupervisedStep::train(const Batch& batch) {
  // Forward may update buffers, such as those of batch normalization. If it throws, a module with
  // buffers may be changed in part.
  is_intact_ = buffers_.empty();
  std::vector<at::Tensor> kept;
  if (options_.on_nan == OnNonFinite::skip)
    for (const at::Tensor& buffer : buffers_) kept.push_back(buffer.clone());
  LossValue value = differentiate(batch);
  is_intact_ = false;
  {
    const at::NoGradGuard no_gradients;
    restore_buffers(value.loss, kept);
    accumulate(value.loss);
    if (updates(batch.number())) update(batch.number() / options_.accumulate, value.loss);
  }
  drop_gradients(tensors_);
  is_intact_ = true;
  return value;
}

void SupervisedStep::restore_buffers(const at::Tensor& loss, const std::vector<at::Tensor>& kept) {
  if (kept.empty()) return;
  const at::Tensor is_good = loss.isfinite();
  for (std::size_t i = 0; i < kept.size(); ++i)
    // Selected on the device, because reading the loss would make the host wait.
    copy_values(buffers_[i], at::where(is_good, buffers_[i], kept[i]));
}

void SupervisedStep::accumulate(const at::Tensor& loss) {
  if (accumulated_.empty()) return;
  if (not_finite_.defined()) not_finite_.copy_(at::maximum(not_finite_, is_not_finite(loss)));
  std::vector<at::Tensor> sums, gradients;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].grad().defined()) continue;
    sums.push_back(accumulated_[i]);
    gradients.push_back(tensors_[i].grad());
  }
  if (!sums.empty()) at::_foreach_add_(sums, gradients);
}

void SupervisedStep::update(std::uint64_t number, const at::Tensor& loss) {
  for (std::size_t i = 0; i < accumulated_.size(); ++i)
    // Optimizer::step() reads gradients from the parameters.
    tensors_[i].mutable_grad() = accumulated_[i];
  std::vector<at::Tensor> gradients = collect_gradients(tensors_);
  Update update{options_.schedule.factor(number), {}, written_update_ == number};
  if (scaler_)
    update.skip =
        scaler_->unscale(gradients, not_finite_.defined() ? not_finite_ : is_not_finite(loss));
  if (options_.clip_grad_norm > 0) clip_norm(gradients, options_.clip_grad_norm);
  stage_.optimizer->step(update);
  if (!accumulated_.empty()) at::_foreach_zero_(accumulated_);
  if (not_finite_.defined()) not_finite_.zero_();
  average();
}

void SupervisedStep::average() {
  if (!float_averages_.empty())
    at::_foreach_lerp_(float_averages_, averaged_, 1 - options_.ema_decay);
  if (!copies_.empty()) at::_foreach_copy_(copies_, copied_);
}

std::vector<NamedTensor> SupervisedStep::state() const {
  std::vector<NamedTensor> all = stage_.optimizer->state();
  for (std::size_t i = 0; i < accumulated_.size(); ++i)
    all.push_back({"accumulated." + parameters_[i].name, accumulated_[i]});
  if (not_finite_.defined()) all.push_back({"accumulated_not_finite", not_finite_});
  for (const auto& [name, tensor] : averages_) all.push_back({"ema." + name, tensor});
  if (scaler_) scaler_->add_state(all);
  return all;
}

std::optional<double> SupervisedStep::lr(std::uint64_t batch) const {
  return stage_.optimizer->lr() * options_.schedule.factor(batch / options_.accumulate);
}

at::Tensor TrainStep::predict(Batch&) {
  throw Error("this training step cannot be evaluated: its class does not define predict()");
}

GraphKey SupervisedStep::graph_key(const Batch& batch) {
  GraphKey key{updates(batch.number()) ? "update" : "accumulate"};
  if (stage_.batch_size)
    key.text += " " + std::to_string(stage_.batch_size(batch.number())) + " samples";
  if (!updates(batch.number())) return key;
  const at::NoGradGuard no_gradients;
  const std::uint64_t number = batch.number() / options_.accumulate;
  if (stage_.optimizer->write_lr(options_.schedule.factor(number)))
    written_update_ = number;
  else
    key.objection =
        "the class of its optimizer does not define write_lr(), so each update needs numbers of "
        "the host";
  return key;
}

GraphKey TrainStep::graph_key(const Batch&) {
  return {"", "its class does not define graph_key(), which says when a graph can be replayed"};
}

LossValue TrainStep::compute_loss(const at::Tensor&, const Batch&) { return {}; }

std::optional<double> TrainStep::lr(std::uint64_t) const { return std::nullopt; }

std::shared_ptr<TrainStep> train_step(TrainStage stage, TrainingOptions options) {
  return std::make_shared<SupervisedStep>(std::move(stage), options);
}

}  // namespace slipstream
