#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/engine/batch.h"
#include "slipstream/engine/loss.h"
#include "slipstream/engine/train_step.h"

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
  /// Whether `run` may be called with batches of zeros before a run, to find out how much memory
  /// the plan takes on a GPU. Where it may not, nothing is predicted.
  bool takes_zeros = true;
};

/// A stage that sets batch[output] = module(batch[input]), without gradients. A module that takes
/// the batch reads and sets other fields as well; `input` is then not used.
FrozenStage frozen(ModuleRef module, std::string input, std::string output);
/// A stage that calls a function on the batch, without gradients. The function must not wait for
/// the device, must not keep or change state that a later batch sees, and must not draw from
/// PyTorch's default generators, which the first batch of each run checks. On a GPU it may be
/// called with batches of zeros before a run, to find out how much memory it takes.
FrozenStage frozen(std::function<void(Batch&)> function);
/// A stage that runs a module which Python wrote with torch.jit.save. The fields `inputs` are the
/// arguments of its forward, in order. The tensor that it returns, or each tensor of the tuple or
/// list, becomes the field of `outputs` in that place. It is put into eval mode, its parameters
/// require no gradients, and it runs on the current stream as it is written, without TorchScript's
/// optimizer, so that every call has the same bits. The file is read here for the CPU, and again
/// for another device of the trainer. The module must keep what frozen() asks of a function. Throws
/// Refused, naming the file, where it is missing, damaged, no such module, from a newer PyTorch, or
/// takes another number of inputs. run() throws Error, naming the file, where forward throws or
/// returns something else.
FrozenStage frozen_torchscript(const std::filesystem::path& file, std::vector<std::string> inputs,
                               std::vector<std::string> outputs);
/// A stage that runs a package which Python compiled with AOTInductor and the metadata of
/// docs/own-models.md. `inputs` and `outputs` are as above, and each output is a new tensor. The
/// package is loaded when the trainer places it, which runs code of the file: use only files that
/// you trust. It runs on the current stream and does not wait for the device, in the precision it
/// was compiled for, whatever that of the plan. An input in another memory layout is copied into
/// the one it was compiled for. Throws Refused, naming the file, where it is missing, damaged, no
/// such package, has no such metadata, was made by another PyTorch, or has other numbers of inputs
/// or outputs. The trainer throws Refused where it was made for another device, GPU architecture or
/// processor. run() throws Error for an input of another shape, dtype or device.
FrozenStage frozen_aot_inductor(const std::filesystem::path& file, std::vector<std::string> inputs,
                                std::vector<std::string> outputs);

/// Puts a module into eval mode and sets requires_grad of its parameters to false, as a stage ahead
/// of training must be.
void freeze(torch::nn::Module& module);

/// All that is wrong with `stage` as a stage ahead of `train`, each with its remedy: a parameter
/// that requires gradients, training mode, storage shared with a trained module. Empty where
/// nothing is.
std::vector<std::string> find_problems(const std::string& name, const FrozenStage& stage,
                                       const TrainStep& train);

}  // namespace slipstream
