#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/train/batch.h"
#include "slipstream/train/loss.h"
#include "slipstream/train/optimizer.h"

// Declared ahead: <torch/nn/module.h> takes five times as long to read as all that is here.
namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace slipstream {

using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// A module with the forward function that a stage calls. Made from a torch::nn module holder or a
/// shared_ptr to a module whose forward(Tensor) returns a Tensor.
struct ModuleRef {
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;

  template <typename M>
  requires std::derived_from<M, torch::nn::Module> ModuleRef(std::shared_ptr<M> m)
      : module(m), forward([m](const at::Tensor& x) { return m->forward(x); }) {}
  template <typename M>
  ModuleRef(const torch::nn::ModuleHolder<M>& holder) : ModuleRef(holder.ptr()) {}
};

/// A device stage ahead of training: computes without gradients and changes nothing that training
/// reads, so that running ahead changes nothing.
struct FrozenStage {
  std::shared_ptr<torch::nn::Module> module;  ///< nullptr for a plain function
  std::function<void(Batch&)> run;
};

/// batch[output] = module(batch[input]), without gradients.
FrozenStage frozen(ModuleRef module, std::string input, std::string output);
/// A function on the batch. It must not keep or change state that a later batch sees, nor draw from
/// PyTorch's default generators (checked at the first batch of each run). On a GPU it may be called
/// with batches of zeros before a run, to find out how much memory it takes.
FrozenStage frozen(std::function<void(Batch&)> function);

/// Puts a module into eval mode and stops gradients: what `frozen` asks for.
void freeze(torch::nn::Module& module);

/// The last stage: forward, loss, backward, optimizer step, gradients set to none.
struct TrainStage {
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;
  std::shared_ptr<Optimizer> optimizer;
  Loss loss;
};

/// What is wrong with `stage` as a stage ahead of `train`, each with its remedy: a parameter that
/// requires gradients, training mode, storage shared with the trained module.
std::vector<std::string> problems_of(const std::string& name, const FrozenStage& stage,
                                     const TrainStage& train);

}  // namespace slipstream
