#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/train/batch.h"
#include "slipstream/train/loss.h"
#include "slipstream/train/train_step.h"

// Declared ahead: <torch/nn/module.h> takes five times as long to read as all that is here.
namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace slipstream {

/// A module's forward function: it makes a tensor of a tensor.
using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// A module with the functions that call its forward. It is made from a torch::nn module holder, or
/// from a shared_ptr to a module, whose forward returns a Tensor and takes a Tensor, or a Batch:
/// forward(Batch&) reads the fields that it needs and may set fields, as further outputs.
struct ModuleRef {
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;             ///< empty for a module that takes a Batch
  BatchForward forward_batch;  ///< for both

  template <typename M>
  requires std::derived_from<M, torch::nn::Module> ModuleRef(std::shared_ptr<M> m) : module(m) {
    if constexpr (requires(M & called, Batch & batch) { called.forward(batch); }) {
      forward_batch = [m](Batch& batch, const std::string&) { return m->forward(batch); };
    } else {
      forward = [m](const at::Tensor& x) { return m->forward(x); };
      forward_batch = [m](Batch& batch, const std::string& input) {
        return m->forward(batch.at(input));
      };
    }
  }
  template <typename M>
  ModuleRef(const torch::nn::ModuleHolder<M>& holder) : ModuleRef(holder.ptr()) {}
};

/// A device stage ahead of training. It computes without gradients and changes nothing that
/// training reads, so running it ahead changes no result.
struct FrozenStage {
  std::shared_ptr<torch::nn::Module> module;  ///< nullptr for a plain function
  std::function<void(Batch&)> run;            ///< called on the stream of the stage's lane
};

/// A stage that sets batch[output] = module(batch[input]), without gradients. A module that takes
/// the batch reads and sets other fields as well; `input` is then not used.
FrozenStage frozen(ModuleRef module, std::string input, std::string output);
/// A stage that calls a function on the batch, without gradients. The function must not wait for
/// the device, must not keep or change state that a later batch sees, and must not draw from
/// PyTorch's default generators, which the first batch of each run checks. On a GPU it may be
/// called with batches of zeros before a run, to find out how much memory it takes.
FrozenStage frozen(std::function<void(Batch&)> function);

/// Puts a module into eval mode and sets requires_grad of its parameters to false, as a stage ahead
/// of training must be.
void freeze(torch::nn::Module& module);

/// All that is wrong with `stage` as a stage ahead of `train`, each with its remedy: a parameter
/// that requires gradients, training mode, storage shared with a trained module. Empty where
/// nothing is.
std::vector<std::string> problems_of(const std::string& name, const FrozenStage& stage,
                                     const TrainStep& train);

}  // namespace slipstream
