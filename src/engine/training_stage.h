#pragma once

#include <memory_resource>
#include <optional>
#include <vector>

#include "engine/bound_pipeline.h"

namespace slipstream {

/// The training stage, batch by batch, and what it tells of each.
class TrainingStage {
 public:
  struct BatchResult {
    float loss = 0;
    std::optional<float> accuracy = std::nullopt;  ///< where the loss counts correct labels
    std::vector<at::Tensor> outputs = {};          ///< in host memory
  };

  /// Batches are counted from `first_step` on; of `window` of them metrics are kept at once.
  /// `bound` must outlive this.
  TrainingStage(const BoundPipeline& bound, std::uint64_t first_step, std::size_t window);

  /// Trains on the current lane. Metrics leave the device behind it, without a wait.
  void run(std::uint64_t batch, const Batch& fields);
  /// REQUIRES: the lane has finished `batch`
  BatchResult take_result(std::uint64_t batch);
  /// Whether the last step changed the state in part: it threw.
  bool is_midway() const { return is_midway_; }

 private:
  struct Metrics {
    float loss;
    std::int64_t correct;
    std::int64_t labels;
  };
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
