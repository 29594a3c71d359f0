#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/bound_pipeline.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// The digest of losses, with the next one.
std::uint64_t digest_with(std::uint64_t digest, float loss);

/// What steps of training change: weights, buffers, the tensors of the training step, the position
/// and the digest of all losses.
class TrainingState {
 public:
  /// `bound` must outlive this.
  explicit TrainingState(const BoundPipeline& bound) : bound_(bound) {}

  /// Of the next batch.
  std::uint64_t position() const { return position_; }
  /// Counts steps that were trained.
  void add_steps(std::span<const float> losses);
  /// Says why these are the weights of no step.
  void spoil(std::string why) { failure_ = std::move(why); }
  /// Throws Refused where these are the weights of no step.
  void check_sound() const;

  std::uint64_t loss_digest() const { return loss_digest_; }
  const EpochLosses& epoch_losses() const { return epoch_losses_; }

  /// Waits for the device.
  std::uint64_t digest() const;
  /// Copies of the tensors alone, enqueued on the current stream.
  State copied_tensors() const;
  State copy() const;
  /// The tensors themselves, with position and digest: for as long as nothing is trained.
  State live() const;
  /// Goes back to the first step; the weights stay.
  void restart();
  /// Throws Error for a state of another pipeline.
  void restore(const State& state);

 private:
  std::vector<NamedTensor> training_tensors() const;

  const BoundPipeline& bound_;
  std::uint64_t position_ = 0;
  std::uint64_t loss_digest_ = 0;
  EpochLosses epoch_losses_;
  std::string failure_;  ///< why the state is of no step; "": it is
};

}  // namespace slipstream
