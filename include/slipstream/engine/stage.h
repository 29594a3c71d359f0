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

// Forward declarations, because including <torch/nn/module.h> takes five times as long to compile
// as everything else in this header.
namespace torch::nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace torch::nn

namespace slipstream {

/// A module's forward function, which computes one tensor from one tensor.
using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// A module with the functions that call its forward. It converts from a torch::nn module holder or
/// from a shared_ptr to a module. The module's forward returns a Tensor and takes either a Tensor
/// or a Batch: forward(Batch&) reads the fields that it needs and may set fields as further
/// outputs.
struct ModuleRef {
  std::shared_ptr<torch::nn::Module> module;
  Forward forward;             ///< empty if the module takes a Batch
  BatchForward forward_batch;  ///< set for both kinds of modules
  /// The number of samples that forward uses of a batch in training, if that depends on the number
  /// of the batch; otherwise empty.
  BatchSize batch_size = {};

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

/// A device stage that runs before the training stage. It computes without gradients and changes
/// nothing that training reads, so running it in advance changes no result.
struct FrozenStage {
  std::shared_ptr<torch::nn::Module> module;  ///< nullptr for a plain function
  std::function<void(Batch&)> run;            ///< called on the stream of the stage's lane
  /// Whether `run` may be called with batches of zeros before a run on a GPU, to measure how much
  /// memory the plan needs. If false, no prediction is made.
  bool takes_zeros = true;
  /// Whether `run` uses Batch::number(). A CUDA graph would repeat the number with which it was
  /// recorded, so such a stage runs without one.
  bool uses_number = false;
  /// The reason why a plan with CUDA graphs must not record `run` in a graph; "": it may.
  std::string no_graph_reason = {};
};

/// Returns a stage that sets batch[output] = module(batch[input]), without gradients. A module that
/// takes the batch may also read and set other fields; `input` is then not used.
FrozenStage frozen(ModuleRef module, std::string input, std::string output);
/// Returns a stage that calls a function on the batch, without gradients. The function must not
/// wait for the device, must not keep or change state that a later batch sees, and must not use
/// PyTorch's default generators, which the first batch of each run checks. Under a plan with CUDA
/// graphs the function is called only for the first batches, so set FrozenStage::uses_number of the
/// result if it uses Batch::number(). On a GPU, it may be
/// called with batches of zeros before a run, to measure how much memory it needs.
FrozenStage frozen(std::function<void(Batch&)> function);
/// Returns a stage that runs a module saved by Python with torch.jit.save. The fields `inputs` are
/// the arguments of its forward, in order. If forward returns a tensor, it becomes the field
/// outputs[0]; if it returns a tuple or list, tensor number k becomes the field outputs[k]. The
/// module is put into eval mode, its parameters require no gradients, and it runs on the current
/// stream without TorchScript's optimizer, so that every call computes the same bits. This function
/// reads the file for the CPU; the trainer reads it again if it uses another device. The module has
/// the same restrictions as a function given to frozen(). Throws Refused, with the file's name, if
/// the file is missing or damaged, is not a TorchScript module, was written by a newer PyTorch, or
/// takes another number of inputs. run() throws Error, with the file's name, if forward throws or
/// returns a value of another type.
FrozenStage frozen_torchscript(const std::filesystem::path& file, std::vector<std::string> inputs,
                               std::vector<std::string> outputs);
/// Returns a stage that runs a package compiled by Python with AOTInductor, with the metadata
/// described in docs/own-models.md. `inputs` and `outputs` are as in frozen_torchscript(), and each
/// output is a new tensor. Loading the package runs code from the file: use only files that you
/// trust. The trainer loads it when it moves the stage to its device. The package runs on the
/// current stream, does not wait for the device, and uses the precision it was compiled for,
/// whatever the plan's precision. An input in another memory layout is copied to the layout that
/// the package was compiled for. Throws Refused, with the file's name, if the file is missing or
/// damaged, is not such a package, lacks the metadata, was made by another PyTorch, or has other
/// numbers of inputs or outputs. The trainer throws Refused if the package was made for another
/// device, GPU architecture or processor. run() throws Error for an input of another shape, dtype
/// or device.
FrozenStage frozen_aot_inductor(const std::filesystem::path& file, std::vector<std::string> inputs,
                                std::vector<std::string> outputs);

/// Puts a module into eval mode and sets requires_grad of its parameters to false, as required of a
/// stage that runs before the training stage.
void freeze(torch::nn::Module& module);

/// Returns the reasons why `stage` cannot run before `train`, each with its remedy: a parameter
/// that requires gradients, training mode, storage shared with a trained module. Empty if there are
/// none.
std::vector<std::string> find_problems(const std::string& name, const FrozenStage& stage,
                                       const TrainStep& train);

}  // namespace slipstream
