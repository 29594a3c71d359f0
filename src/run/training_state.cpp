#include "run/training_state.h"

#include <ATen/core/grad_mode.h>

#include <bit>

#include "core/fingerprint.h"
#include "run/digest.h"

namespace slipstream {

void TrainingState::add_steps(std::span<const float> losses) {
  position_ += losses.size();
  for (const float loss : losses)
    loss_digest_ = chain64(loss_digest_, std::bit_cast<std::uint32_t>(loss));
}

void TrainingState::check_sound() const {
  if (!spoiled_by_.empty())
    throw Refused("the weights are not those of any step, since an earlier run failed (" +
                  spoiled_by_ + "): restore() a state first, or make another trainer");
}

std::vector<at::Tensor> TrainingState::tensors() const {
  std::vector<at::Tensor> all = bound_.persistent;
  for (const at::Tensor& tensor : bound_.pipeline.train_stage().optimizer->state())
    all.push_back(tensor);
  return all;
}

std::uint64_t TrainingState::digest() const { return chain64(loss_digest_, digest_of(tensors())); }

State TrainingState::copy() const {
  const at::NoGradGuard no_gradients;
  State state;
  for (const at::Tensor& tensor : tensors()) state.tensors.push_back(tensor.detach().clone());
  state.position = position_;
  state.loss_digest = loss_digest_;
  state.spoiled_by = spoiled_by_;
  bound_.synchronize();
  return state;
}

void TrainingState::restore(const State& state) {
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> targets = tensors();
  if (targets.size() != state.tensors.size())
    throw Error("this state belongs to another pipeline: it has " +
                std::to_string(state.tensors.size()) + " tensors, not " +
                std::to_string(targets.size()));
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i].detach().copy_(state.tensors[i]);
  position_ = state.position;
  loss_digest_ = state.loss_digest;
  spoiled_by_ = state.spoiled_by;
  bound_.synchronize();
}

}  // namespace slipstream
