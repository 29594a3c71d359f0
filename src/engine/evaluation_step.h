#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "slipstream/engine/train_step.h"

namespace slipstream {

/// A last stage that trains nothing and instead computes the scores of another last stage's model.
class EvaluationStep final : public TrainStep {
 public:
  /// Evaluates batches of `batch_size` samples from a data set of `samples` samples. Positions
  /// after the last sample of the data set are not counted.
  EvaluationStep(std::shared_ptr<TrainStep> model, std::vector<Metric> metrics,
                 std::uint64_t samples, std::uint64_t batch_size);

  std::vector<NamedModule> modules() const override { return model_->modules(); }
  void bind(const StepSettings&) override {}
  LossValue train(const Batch& batch) override;
  std::vector<NamedTensor> state() const override { return {}; }
  bool is_intact() const override { return true; }

  /// Function that computes tensors for RunOptions::on_outputs from the model's output, instead of
  /// a loss and metrics.
  using Keep = std::function<std::vector<at::Tensor>(const at::Tensor& output)>;
  /// Sets the function. If it is empty, losses and metrics are computed.
  void set_keep(Keep keep) { keep_ = std::move(keep); }

  /// Resets all counts. Must be called before the first batch of an evaluation on `device`.
  void begin(at::Device device);
  /// Returns the scores by name. Must be called after the last batch. Waits for the device.
  std::vector<std::pair<std::string, double>> scores() const;
  const std::vector<Metric>& metrics() const { return metrics_; }
  at::Tensor counts(std::size_t metric) const { return counts_[metric].cpu(); }
  /// The number of samples that were counted.
  std::uint64_t samples() const { return counted_; }

 private:
  /// Returns the positions in a batch of the samples that count. Samples that complete the last
  /// batch, or that replace a bad sample, do not count.
  std::vector<std::int64_t> positions_in(const Batch& batch) const;
  /// Returns the batch reduced to these samples.
  Batch selected(const Batch& batch, const std::vector<std::int64_t>& positions) const;

  std::shared_ptr<TrainStep> model_;
  std::vector<Metric> metrics_;
  std::uint64_t samples_, batch_size_, counted_ = 0;
  at::Tensor loss_, correct_;  ///< float64, summed
  std::int64_t labels_ = 0;
  bool has_loss_ = false;
  std::vector<at::Tensor> counts_;
  Keep keep_;
};

}  // namespace slipstream
