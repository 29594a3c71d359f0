#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "engine/bound_pipeline.h"
#include "engine/step_graphs.h"

namespace slipstream {

/// Runs the training stage for each batch and keeps the results of each batch until the host has
/// seen the batch finished and takes them.
class TrainingStage {
 public:
  struct BatchResult {
    float loss = 0;
    std::optional<float> accuracy = std::nullopt;  ///< set if the loss counts correct labels
    std::vector<at::Tensor> outputs = {};          ///< in host memory
  };

  /// Batches are numbered from `first_step`. The metrics of `window` batches are kept at once.
  /// `bound` must outlive this object.
  TrainingStage(const BoundPipeline& bound, std::uint64_t first_step, std::size_t window);

  /// Trains on the current lane. Metrics are copied to the host asynchronously after it, without a
  /// wait. `graphs`: those of the training step, or nullptr; `call`: what they need to know of the
  /// slot of the batch.
  void run(std::uint64_t batch, const Batch& fields, std::size_t slot, StepGraphs* graphs,
           StepCall call);
  /// Returns the results of `batch`. REQUIRES: the lane has finished `batch`
  BatchResult take_result(std::uint64_t batch);
  /// Returns true if the last step threw and changed the state only in part.
  bool is_midway() const { return is_midway_; }

 private:
  struct Metrics {
    float loss;
    std::int64_t correct;
    std::int64_t labels;
  };
  LossValue train(std::uint64_t batch, const Batch& fields, std::size_t slot, StepGraphs* graphs,
                  StepCall call);
  void key_generator(std::uint64_t batch) const;
  void keep_metrics(std::uint64_t batch, const LossValue& value);

  const BoundPipeline& bound_;
  std::uint64_t first_step_;
  TrainStep& step_;
  std::pmr::vector<Metrics> metrics_;
  std::vector<std::vector<at::Tensor>> outputs_;  ///< in host memory
  bool is_midway_ = false;
};

}  // namespace slipstream
