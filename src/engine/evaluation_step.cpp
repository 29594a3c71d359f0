#include "engine/evaluation_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace slipstream {

EvaluationStep::EvaluationStep(std::shared_ptr<TrainStep> model, std::vector<Metric> metrics,
                               std::uint64_t samples, std::uint64_t batch_size)
    : model_(std::move(model)),
      metrics_(std::move(metrics)),
      samples_(samples),
      batch_size_(batch_size) {}

void EvaluationStep::begin(at::Device device) {
  const auto options = at::TensorOptions(at::kDouble).device(device);
  loss_ = at::zeros({}, options);
  correct_ = at::zeros({}, options);
  labels_ = 0;
  counted_ = 0;
  has_loss_ = false;
  counts_.clear();
  for (const Metric& metric : metrics_) counts_.push_back(at::zeros(metric.shape, options));
}

std::vector<std::int64_t> EvaluationStep::positions_in(const Batch& batch) const {
  const std::uint64_t batches = (samples_ + batch_size_ - 1) / batch_size_;
  const std::uint64_t first = batch.number() % batches * batch_size_;
  const std::vector<std::size_t>& bad = batch.stand_ins();
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < std::min(batch_size_, samples_ - first); ++i)
    if (std::find(bad.begin(), bad.end(), i) == bad.end())
      positions.push_back(static_cast<std::int64_t>(i));
  return positions;
}

Batch EvaluationStep::selected(const Batch& batch,
                               const std::vector<std::int64_t>& positions) const {
  const auto size = static_cast<std::int64_t>(batch_size_);
  const auto count = static_cast<std::int64_t>(positions.size());
  if (count == size) return batch;
  const bool is_start = positions.empty() || positions.back() == count - 1;
  const auto some = [&](const at::Tensor& all) {
    if (is_start) return all.narrow(0, 0, count);
    const at::Tensor indices = at::tensor(positions, at::kLong).to(all.device());
    return all.index_select(0, indices).contiguous(all.suggest_memory_format());
  };
  Batch part(batch.number());
  for (const auto& [name, tensor] : batch.fields())
    part.set(name, tensor.dim() > 0 && tensor.size(0) == size ? some(tensor) : tensor,
             batch.classes(name));
  return part;
}

LossValue EvaluationStep::train(const Batch& whole) {
  const at::NoGradGuard no_gradients;
  const std::vector<std::int64_t> positions = positions_in(whole);
  if (positions.empty()) return {at::zeros({}, loss_.options().dtype(at::kFloat)), {}, {}, 0};
  counted_ += positions.size();
  Batch batch = selected(whole, positions);
  const at::Tensor output = model_->predict(batch);
  if (keep_) return {at::zeros({}, output.options().dtype(at::kFloat)), {}, {}, 0, keep_(output)};
  LossValue loss = model_->compute_loss(output, batch);
  if (loss.loss.defined()) {
    has_loss_ = true;
    loss_.add_(loss.loss.to(at::kDouble), static_cast<std::int64_t>(positions.size()));
  } else {
    loss.loss = at::zeros({}, output.options().dtype(at::kFloat));
  }
  if (loss.correct.defined()) {
    correct_.add_(loss.correct);
    labels_ += loss.labels;
  }
  for (std::size_t i = 0; i < metrics_.size(); ++i) metrics_[i].add(counts_[i], output, batch);
  return loss;
}

std::vector<std::pair<std::string, double>> EvaluationStep::scores() const {
  std::vector<std::pair<std::string, double>> all;
  if (has_loss_) all.emplace_back("loss", loss_.item<double>() / static_cast<double>(counted_));
  if (labels_ > 0)
    all.emplace_back("accuracy", correct_.item<double>() / static_cast<double>(labels_));
  for (std::size_t i = 0; i < metrics_.size(); ++i)
    all.emplace_back(metrics_[i].name, metrics_[i].value(counts(i)));
  return all;
}

}  // namespace slipstream
