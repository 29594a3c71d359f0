#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "slipstream/results/result.h"
#include "slipstream/train/stage.h"

namespace slipstream {

/// Where branches run. Never changes a bit.
enum class ForkMode : std::uint8_t {
  automatic,  ///< both in turns for the first few calls, then where they were faster
  streams,    ///< each branch on a stream of its own
  one_stream  ///< one after the other, on the stream of the stage
};
/// "auto", "streams" or "one-stream". Throws Refused for another name.
ForkMode fork_mode_named(const std::string& name);

/// Independent branches inside a stage: modules that each make one tensor of one input, and what
/// joins their results. A module itself, for `frozen`, `.train`, or a part of another module;
/// branches may hold further ones.
///
/// A branch begins after what its stage has done so far, and the stage goes on after all branches,
/// forward and backward, and also when one throws. Streams are the Context's,
/// memory needs no record_stream: each branch's graph is a graph of its own, which backward() runs
/// as a whole on the branch's stream, between the same two waits.
///
/// Branches are called in turn by the thread of the stage, so on a CPU, where a thread is the
/// stage's lane, nothing overlaps, and they may draw from PyTorch's generator where their stage
/// may. There is one stream where they share a parameter or a buffer, and outside of a run.
///
/// An Error: a branch that writes into its input, or reads another tensor whose gradient is wanted
/// and that is no parameter of its own; a call under another stream than the stage's; gradients
/// other than by one backward() of all leaves for each forward(), for neither
/// torch::autograd::grad() nor double backward would see the branches' parameters.
class ForkJoinImpl : public torch::nn::Module {
 public:
  /// Makes one tensor of the branches' results, in their order, on the stage's stream.
  using Join = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

  /// Throws Refused without branches. Without `join`, results are concatenated along dimension 1.
  explicit ForkJoinImpl(std::vector<ModuleRef> branches, ForkMode mode = ForkMode::automatic,
                        Join join = {});
  ~ForkJoinImpl() override;

  at::Tensor forward(const at::Tensor& input);

  /// What was kept and why, and what streams gain; `of` is empty.
  Gain gain() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
TORCH_MODULE(ForkJoin);

}  // namespace slipstream
