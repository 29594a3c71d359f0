#pragma once

#include <optional>
#include <vector>

#include "engine/gradients.h"
#include "slipstream/engine/train_step.h"

namespace slipstream {

/// The TrainStep that train_step() returns.
class SupervisedStep final : public TrainStep {
 public:
  SupervisedStep(TrainStage stage, TrainingOptions options);

  std::vector<NamedModule> modules() const override { return {{"", stage_.module}}; }
  void bind(const StepSettings& settings) override;
  LossValue train(const Batch& batch) override;
  std::vector<NamedTensor> state() const override;
  bool is_intact() const override { return is_intact_; }
  at::Tensor predict(Batch& batch) override;
  LossValue compute_loss(const at::Tensor& output, const Batch& batch) override;
  std::vector<NamedTensor> averaged() const override { return averages_; }
  GraphKey graph_key(const Batch& batch) override;
  std::optional<double> lr(std::uint64_t batch) const override;

  /// Computes forward and backward without an update. These two determine the memory of a step.
  LossValue differentiate(const Batch& batch);
  const TrainStage& stage() const { return stage_; }

 private:
  void backward(const at::Tensor& output, const LossValue& value);
  void make_averages();
  void accumulate(const at::Tensor& loss);
  bool updates(std::uint64_t batch) const { return (batch + 1) % options_.accumulate == 0; }
  void update(std::uint64_t number, const at::Tensor& loss);
  void average();
  void restore_buffers(const at::Tensor& loss, const std::vector<at::Tensor>& kept);

  TrainStage stage_;
  TrainingOptions options_;
  bool is_intact_ = true;
  /// The number of the update whose learning rates have been written to the device.
  std::optional<std::uint64_t> written_update_;
  std::vector<NamedTensor> parameters_;  ///< parameters that are trained
  std::vector<at::Tensor> tensors_;      ///< tensors of parameters_
  std::vector<at::Tensor> buffers_;
  std::optional<GradientScaler> scaler_;  ///< set if updates may be skipped
  std::vector<at::Tensor> accumulated_;   ///< sums of gradients; empty if each batch is one update
  /// 1 if a loss since the last update was not finite; defined only if needed.
  at::Tensor not_finite_;
  std::vector<NamedTensor> averages_;
  /// floating-point tensors, and their averages.
  std::vector<at::Tensor> averaged_, float_averages_;
  std::vector<at::Tensor> copied_, copies_;  ///< other tensors, and their copies
};

}  // namespace slipstream
