#include "engine/training_state.h"

#include <ATen/core/grad_mode.h>

#include <bit>
#include <limits>

#include "core/fingerprint.h"
#include "engine/batch_lister.h"
#include "engine/copy_values.h"
#include "engine/digest.h"

namespace slipstream {
namespace {

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> all;
  for (const auto& [name, tensor] : tensors) all.push_back({name, tensor.detach().clone()});
  return all;
}

/// Throws Error if `given` is not a state of the tensors `own`, in the same order.
void check_same(const std::string& whose, const std::vector<NamedTensor>& given,
                const std::vector<NamedTensor>& own) {
  const std::string start = "this state belongs to another pipeline: ";
  if (given.size() != own.size())
    throw Error(start + whose + " has " + std::to_string(own.size()) +
                " tensors, but in the state " + std::to_string(given.size()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (given[i].name != own[i].name)
      throw Error(start + whose + " has '" + printable_name(own[i].name) +
                  "', but the state has '" + printable_name(given[i].name) + "' in its place");
    if (given[i].tensor.sizes() != own[i].tensor.sizes())
      throw Error(start + "'" + printable_name(own[i].name) + "' of " + whose +
                  " has another shape in the state");
    if (given[i].tensor.scalar_type() != own[i].tensor.scalar_type())
      throw Error(start + "'" + printable_name(own[i].name) + "' of " + whose + " is " +
                  at::toString(own[i].tensor.scalar_type()) + ", but in the state " +
                  at::toString(given[i].tensor.scalar_type()));
    const std::string lost = lost_by_copy(own[i].name, own[i].tensor, given[i].tensor);
    if (!lost.empty()) throw Error(start + lost);
  }
}

void restore_tensors(const std::vector<NamedTensor>& given, const std::vector<NamedTensor>& own) {
  for (std::size_t i = 0; i < own.size(); ++i) copy_values(own[i].tensor, given[i].tensor);
}

}  // namespace

std::uint64_t digest_with(std::uint64_t digest, float loss) {
  return chain64(digest, std::bit_cast<std::uint32_t>(loss));
}

void EpochLosses::add(float loss, std::uint64_t step, std::uint64_t batches_per_epoch) {
  if (step % batches_per_epoch == 0) *this = {};
  sum += static_cast<double>(loss);
  ++steps;
}

double EpochLosses::mean() const {
  return steps == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(steps);
}

void TrainingState::add_steps(std::span<const float> losses) {
  const std::uint64_t length = bound_.pipeline.batches_per_epoch();
  for (const float loss : losses) {
    loss_digest_ = digest_with(loss_digest_, loss);
    epoch_losses_.add(loss, position_++, length);
  }
}

void TrainingState::check_sound() const {
  if (!failure_.empty())
    throw Refused("the weights do not belong to any step, because an earlier run failed (" +
                  failure_ + "): restore() a state first, or create another trainer");
}

std::vector<NamedTensor> TrainingState::training_tensors() const {
  return bound_.pipeline.train_step()->state();
}

std::uint64_t TrainingState::digest() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& each : bound_.persistent) all.push_back(each.tensor);
  for (const NamedTensor& each : training_tensors()) all.push_back(each.tensor);
  return chain64(loss_digest_, compute_digest(all));
}

State TrainingState::copied_tensors() const {
  const at::NoGradGuard no_gradients;
  State state;
  state.model = copies(bound_.persistent);
  state.training = copies(training_tensors());
  return state;
}

State TrainingState::live() const {
  State state;
  state.model = bound_.persistent;
  state.training = training_tensors();
  state.position = position_;
  state.loss_digest = loss_digest_;
  state.epoch_losses = epoch_losses_;
  state.order = order();
  state.failure = failure_;
  return state;
}

std::string TrainingState::order() const {
  const auto& lister = bound_.pipeline.lister();
  return lister == nullptr ? "" : lister->state(position_);
}

void TrainingState::restart() {
  if (const auto& lister = bound_.pipeline.lister()) lister->restore(0, "");
  position_ = 0;
  loss_digest_ = 0;
  epoch_losses_ = {};
  failure_.clear();
}

State TrainingState::copy() const {
  State state = copied_tensors();
  state.position = position_;
  state.loss_digest = loss_digest_;
  state.epoch_losses = epoch_losses_;
  state.order = order();
  state.failure = failure_;
  bound_.synchronize();
  return state;
}

void TrainingState::restore(const State& state) {
  const at::NoGradGuard no_gradients;
  const std::vector<NamedTensor> training = training_tensors();
  // Both checks come before the first copy, so that an error leaves the trainer unchanged.
  check_same("the model", state.model, bound_.persistent);
  check_same("the training step", state.training, training);
  if (const auto& lister = bound_.pipeline.lister()) lister->restore(state.position, state.order);
  restore_tensors(state.model, bound_.persistent);
  restore_tensors(state.training, training);
  position_ = state.position;
  loss_digest_ = state.loss_digest;
  epoch_losses_ = state.epoch_losses;
  failure_ = state.failure;
  bound_.synchronize();
}

}  // namespace slipstream
