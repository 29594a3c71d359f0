#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "slipstream/engine/result.h"
#include "slipstream/engine/stage.h"

namespace slipstream {

/// Where branches run. No mode changes a bit of any result.
enum class ForkMode : std::uint8_t {
  automatic,  ///< tries both in the first few calls, then keeps the faster one
  streams,    ///< each branch on a stream of its own
  one_stream  ///< one after the other, on the stream of the stage
};
/// The mode of that name: "auto", "streams" or "one-stream". Throws Refused for another name.
ForkMode fork_mode_named(const std::string& name);

/// A module of independent branches that can run at the same time. Each branch is a module that
/// makes one tensor of the input, and a function joins their results. It is used like any other
/// module: in `frozen`, in `.train`, or as a part of another module. Branches may hold further
/// ForkJoins.
///
/// A branch begins after what its stage has enqueued so far. The stage goes on after all branches,
/// in forward and in backward, and also when a branch throws. The host does not wait. Streams are
/// those of the Context. Tensors need no record_stream: each branch has an autograd graph of its
/// own, which backward() runs as a whole on the branch's stream, between the same two waits.
///
/// The thread of the stage calls the branches one after the other, so they may draw from PyTorch's
/// generator where their stage may. On a CPU, where a lane is a thread, nothing overlaps. Branches
/// that share a parameter or a buffer, and branches outside of a run, use one stream.
///
/// Throws Error for a branch that writes into its input, for one that reads another tensor whose
/// gradient is wanted and that is not a parameter of its own, and for a call under another stream
/// than the stage's. It throws Error, too, unless each forward() is followed by one backward() for
/// all gradients: torch::autograd::grad() and a double backward would not see the branches'
/// parameters.
class ForkJoinImpl : public torch::nn::Module {
 public:
  /// A function that makes one tensor of the branches' results, in their order, on the stage's
  /// stream.
  using Join = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

  /// Makes the module. Without `join`, results are concatenated along dimension 1. Throws Refused
  /// where there are no branches.
  explicit ForkJoinImpl(std::vector<ModuleRef> branches, ForkMode mode = ForkMode::automatic,
                        Join join = {});
  ~ForkJoinImpl() override;

  /// Runs the branches on `input` and joins their results. It enqueues the work and does not wait.
  at::Tensor forward(const at::Tensor& input);

  /// Where the branches run and why, and what streams gain. Gain::of is empty.
  Gain gain() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
TORCH_MODULE(ForkJoin);

}  // namespace slipstream
