#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "slipstream/engine/result.h"
#include "slipstream/engine/stage.h"

namespace slipstream {

/// Where the branches of a ForkJoin run. No mode changes a bit of any result.
enum class ForkMode : std::uint8_t {
  automatic,  ///< tries both in the first few calls, then keeps the faster one
  streams,    ///< each branch on a separate stream
  one_stream  ///< one after the other, on the stream of the stage
};
/// Returns the mode of that name: "auto", "streams" or "one-stream". Throws Refused for any other
/// name.
ForkMode fork_mode_named(const std::string& name);

/// A module of independent branches that can run at the same time. Each branch is a module that
/// computes one tensor from the input, and a function joins their results. It is used like any
/// other module: in `frozen`, in `.train`, or as a part of another module. A branch may itself
/// contain a ForkJoin.
///
/// A branch starts after the work that its stage has enqueued so far. The stage continues after all
/// branches, in forward and in backward, and also if a branch throws. The host does not wait. The
/// streams belong to the Context. Tensors need no record_stream: each branch has a separate
/// autograd graph, which backward() runs as a whole on the branch's stream, between the same two
/// waits.
///
/// The stage's thread calls the branches one after the other, so a branch may use PyTorch's
/// generator whenever its stage may. On a CPU, where a lane is a thread, branches do not overlap.
/// Branches that share a parameter or a buffer use one stream, and so do branches that are called
/// outside of a run.
///
/// Throws Error if a branch writes into its input, if it reads another tensor that requires a
/// gradient and is not one of the branch's own parameters, and if the module is called under
/// another stream than the stage's. Also throws Error unless each forward() is followed by exactly
/// one backward() for all gradients: torch::autograd::grad() and a double backward would not see
/// the branches' parameters.
class ForkJoinImpl : public torch::nn::Module {
 public:
  /// A function that joins the branches' results, given in the order of the branches, into one
  /// tensor. It runs on the stage's stream.
  using Join = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

  /// Makes the module. Without `join`, results are concatenated along dimension 1. Throws Refused
  /// if there are no branches.
  explicit ForkJoinImpl(std::vector<ModuleRef> branches, ForkMode mode = ForkMode::automatic,
                        Join join = {});
  ~ForkJoinImpl() override;

  /// Runs the branches on `input` and joins their results. It enqueues the work and does not wait.
  at::Tensor forward(const at::Tensor& input);

  /// Returns where the branches run and why, and the measured gain of separate streams. Gain::part
  /// is empty.
  Gain gain() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
TORCH_MODULE(ForkJoin);

}  // namespace slipstream
