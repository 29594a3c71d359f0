#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "slipstream/engine/train_step.h"

namespace slipstream {

/// A last stage that trains nothing: it counts how good another one's model is.
class EvaluationStep final : public TrainStep {
 public:
  /// Batches of `batch_size` samples of a data set with `samples`; those behind the last sample do
  /// not count.
  EvaluationStep(std::shared_ptr<TrainStep> model, std::vector<Metric> metrics,
                 std::uint64_t samples, std::uint64_t batch_size);

  std::vector<NamedModule> modules() const override { return model_->modules(); }
  void bind(const StepSettings&) override {}
  LossValue train(const Batch& batch) override;
  std::vector<NamedTensor> state() const override { return {}; }
  bool is_intact() const override { return true; }

  /// What is made of an output, for RunOptions::on_outputs, instead of a loss and metrics.
  using Keep = std::function<std::vector<at::Tensor>(const at::Tensor& output)>;
  /// Empty: losses and metrics are counted.
  void set_keep(Keep keep) { keep_ = std::move(keep); }

  /// Before the first batch of an evaluation on `device`.
  void begin(at::Device device);
  /// Behind the last one: the scores by name, and the counts of the metrics. Waits for the device.
  std::vector<std::pair<std::string, double>> scores() const;
  const std::vector<Metric>& metrics() const { return metrics_; }
  at::Tensor counts(std::size_t metric) const { return counts_[metric].cpu(); }
  /// The number of samples that were counted.
  std::uint64_t samples() const { return counted_; }

 private:
  /// The positions in a batch of the samples that count: none that fills up the last batch or takes
  /// the place of a bad one.
  std::vector<std::int64_t> positions_in(const Batch& batch) const;
  /// The batch of these samples alone.
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
