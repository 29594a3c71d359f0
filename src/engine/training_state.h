#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/bound_pipeline.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Returns the digest of losses extended by the next loss.
std::uint64_t digest_with(std::uint64_t digest, float loss);

/// The state that training steps change: weights, buffers, the tensors of the training step, the
/// position and the digest of all losses.
class TrainingState {
 public:
  /// `bound` must outlive this.
  explicit TrainingState(const BoundPipeline& bound) : bound_(bound) {}

  /// Returns the number of the next batch.
  std::uint64_t position() const { return position_; }
  /// Counts trained steps, given the loss of each.
  void add_steps(std::span<const float> losses);
  /// Marks the weights as not belonging to any step, with the reason.
  void spoil(std::string why) { failure_ = std::move(why); }
  /// Throws Refused if the weights do not belong to any step.
  void check_sound() const;

  std::uint64_t loss_digest() const { return loss_digest_; }
  const EpochLosses& epoch_losses() const { return epoch_losses_; }

  /// Waits for the device.
  std::uint64_t digest() const;
  /// Returns copies of only the tensors, enqueued on the current stream.
  State copied_tensors() const;
  State copy() const;
  /// Returns the tensors themselves, with position and digest. Valid until the next training step.
  State live() const;
  /// Sets the position to the first step; the weights stay.
  void restart();
  /// Copies `state` into the tensors. Throws Error if it belongs to another pipeline.
  void restore(const State& state);

 private:
  std::vector<NamedTensor> training_tensors() const;
  /// Returns State::order.
  std::string order() const;

  const BoundPipeline& bound_;
  std::uint64_t position_ = 0;
  std::uint64_t loss_digest_ = 0;
  EpochLosses epoch_losses_;
  std::string failure_;  ///< why the weights do not belong to any step; "" if they do
};

}  // namespace slipstream
