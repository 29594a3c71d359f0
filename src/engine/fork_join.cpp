#include "slipstream/engine/fork_join.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "engine/branches.h"

namespace slipstream {
namespace {

bool share_state(const std::vector<ModuleRef>& branches) {
  std::unordered_set<const void*> seen;
  for (const ModuleRef& branch : branches) {
    std::unordered_set<const void*> own;
    for (const auto& tensors : {branch.module->parameters(), branch.module->buffers()})
      // Tensors are collected for each branch first, because one branch may use a tensor twice
      // without sharing it with another.
      for (const at::Tensor& tensor : tensors) own.insert(tensor.unsafeGetTensorImpl());
    for (const void* tensor : own)
      if (!seen.insert(tensor).second) return true;
  }
  return false;
}

}  // namespace

ForkMode fork_mode_named(const std::string& name) {
  if (name == "auto") return ForkMode::automatic;
  if (name == "streams") return ForkMode::streams;
  if (name == "one-stream") return ForkMode::one_stream;
  throw Refused(unknown_name("fork", name, {"auto", "streams", "one-stream"}));
}

struct ForkJoinImpl::Impl {
  std::vector<Forward> branches;
  ForkMode mode;
  Join join;
  bool shares_state = false;
  bool is_on_cpu = false;
  ForkTrial trial;

  bool keeps_streams() const {
    if (shares_state) return false;
    return mode == ForkMode::automatic ? trial.keeps_streams() && !is_on_cpu
                                       : mode == ForkMode::streams;
  }

  std::string_view reason() const {
    if (shares_state) return "branches share a parameter or a buffer";
    if (mode != ForkMode::automatic) return "requested";
    if (is_on_cpu) return "on a CPU branches run one after the other";
    if (!trial.is_decided()) return "too few calls to measure both";
    return trial.reason();
  }

  Route route() {
    const auto* lane = CurrentLane::innermost();
    if (lane == nullptr) return {};
    if (!lane->is_current())
      throw Error(
          "ForkJoin: the current stream is not its stage's stream; inside a stage, use a ForkJoin "
          "instead of streams for work that should overlap");
    is_on_cpu = lane->context().kind() == DeviceKind::cpu;
    // Backward runs with the same choice as its forward: the Route is stored in the autograd graph.
    auto call = mode == ForkMode::automatic && !shares_state ? trial.next() : nullptr;
    const bool on_streams = call != nullptr ? call->on_streams : keeps_streams();
    return {*lane, on_streams, std::move(call)};
  }
};

ForkJoinImpl::ForkJoinImpl(std::vector<ModuleRef> branches, ForkMode mode, Join join)
    : impl_(std::make_unique<Impl>()) {
  if (branches.empty()) throw Refused("ForkJoin: no branches were given");
  impl_->mode = mode;
  impl_->join = std::move(join);
  if (!impl_->join)
    impl_->join = [](const std::vector<at::Tensor>& outputs) { return at::cat(outputs, 1); };
  impl_->shares_state = share_state(branches);
  std::unordered_set<const torch::nn::Module*> known;
  for (std::size_t k = 0; k < branches.size(); ++k) {
    if (known.insert(branches[k].module.get()).second)
      register_module("branch" + std::to_string(k), branches[k].module);
    impl_->branches.push_back(std::move(branches[k].forward));
  }
}

ForkJoinImpl::~ForkJoinImpl() = default;

at::Tensor ForkJoinImpl::forward(const at::Tensor& input) {
  return impl_->join(run_branches(impl_->route(), impl_->branches, input));
}

Gain ForkJoinImpl::gain() const {
  return {"", impl_->trial.predicted(), impl_->trial.measured(),
          impl_->keeps_streams() ? "streams" : "one stream", std::string(impl_->reason())};
}

}  // namespace slipstream
