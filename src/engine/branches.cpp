#include "engine/branches.h"

#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/fork.h"
#include "engine/context_parts.h"
#include "engine/torch_version.h"

namespace slipstream {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// Disables autocast's cache of converted weights. A cached weight belongs to the autograd graph in
/// which it was converted first, but each branch has a separate graph.
class NoAutocastCache {
 public:
  NoAutocastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoAutocastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  bool before_;
};

/// The start of a branch's separate autograd graph. It stores the gradient with respect to the
/// branch's input.
struct BranchInput final : Node {
  variable_list apply(variable_list&& gradients) override {
    gradient = std::move(gradients.front());
    return {};
  }
  std::string name() const override { return "BranchInput"; }

  at::Tensor gradient;
};

/// The backward of all branches. It runs backward() of each branch's separate graph, from its
/// output to its input. It has one next edge for each branch, and all of them lead to the input of
/// the branches, so that PyTorch adds up their gradients.
struct ForkJoinBackward final : Node {
  variable_list apply(variable_list&& gradients) override {
    if (outputs.empty())
      throw Error("ForkJoin: backward() was called a second time; call forward() again before it");
    // PyTorch clears is_checkpoint_valid() during a backward pass that computes only selected
    // gradients, as grad() does. GradMode is enabled during backward only with create_graph.
    if (at::GradMode::is_enabled() ||
        !torch::autograd::Engine::get_default_engine().is_checkpoint_valid())
      throw Error(
          "ForkJoin: its branches' parameters get gradients only from backward() without inputs or "
          "create_graph, not from torch::autograd::grad(); for those, call the branches without "
          "ForkJoin");
    route.run(outputs.size(), ForkPass::backward, [&](std::size_t k) {
      if (gradients[k].defined()) torch::autograd::backward({outputs[k]}, {gradients[k]});
    });
    // The order is reversed, because PyTorch adds the gradient of the last user first, and the
    // order of a sum changes its bits.
    variable_list backwards;
    for (std::size_t k = begins.size(); k-- > 0;)
      backwards.push_back(std::move(begins[k]->gradient));
    return backwards;
  }
  void release_variables() override {
    input.reset();
    begins.clear();
    outputs.clear();
  }
  std::string name() const override { return "ForkJoinBackward"; }

  Route route;
  at::Tensor input;  ///< kept alive until the branches have read it on their streams
  std::vector<NodePtr<BranchInput>> begins;
  std::vector<at::Tensor> outputs;
};

std::int64_t tensor_version(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

/// Returns true if the graph of `output` contains a node that is older than `first`, a number of
/// this thread's autograd sequence. Such a node does not belong to the branch, so its gradient
/// would be lost.
bool goes_beyond(const at::Tensor& output, std::uint64_t first) {
  std::vector<const Node*> open = {output.grad_fn().get()};
  std::unordered_set<const Node*> seen = {nullptr};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->sequence_nr() < first) return true;
    for (const torch::autograd::Edge& edge : node->next_edges())
      open.push_back(edge.function.get());
  }
  return false;
}

/// Returns `input` detached from its graph, as the start of a branch's separate graph.
at::Tensor begun_at(const NodePtr<BranchInput>& begin, const at::Tensor& input) {
  at::Tensor detached = input.detach();
  if (input.requires_grad()) torch::autograd::set_history(detached, begin);
  return detached;
}

/// Returns `outputs` detached from the branches' graphs and connected to the graph of `input`.
std::vector<at::Tensor> joined_to(const at::Tensor& input, Route route,
                                  std::vector<NodePtr<BranchInput>> begins,
                                  std::vector<at::Tensor> outputs) {
  const auto node = make_node<ForkJoinBackward>();
  node->set_next_edges(
      torch::autograd::edge_list(outputs.size(), torch::autograd::impl::gradient_edge(input)));
  std::vector<at::Tensor> joined;
  for (const at::Tensor& output : outputs) {
    joined.push_back(output.detach());
    if (output.requires_grad())
      torch::autograd::set_history(joined.back(), node);
    else
      node->add_input_metadata(Node::undefined_input());
  }
  node->route = std::move(route);
  node->input = input.detach();
  node->begins = std::move(begins);
  node->outputs = std::move(outputs);
  return joined;
}

}  // namespace

Route::Route(const CurrentLane& lane, bool on_streams, std::shared_ptr<ForkTrial::Call> call)
    : context_(&lane.context()),
      home_(&lane.lane()),
      on_streams_(on_streams),
      call_(std::move(call)) {}

void Route::run(std::size_t branches, ForkPass pass, const std::function<void(std::size_t)>& work) {
  const NoAutocastCache no_cache;
  std::optional<ForkTrial::Pass> timed;
  if (call_ != nullptr) timed.emplace(*home_);
  if (on_streams_) {
    const auto on_lane = [&](std::size_t k, Lane& lane) {
      const CurrentLane current(*context_, lane);
      work(k);
    };
    get_fork(*context_, *home_).run(branches, pass, get_fork_probe(*context_), on_lane);
    if (timed) timed->mark();
  }
  for (std::size_t k = 0; !on_streams_ && k < branches; ++k) {
    work(k);
    if (timed) timed->mark();
  }
  if (timed) call_->passes.push_back(std::move(*timed));
}

std::vector<at::Tensor> run_branches(Route route, const std::vector<Forward>& branches,
                                     const at::Tensor& input) {
  const bool tracks = at::GradMode::is_enabled();
  // PyTorch increases a tensor's version with every write in place.
  const std::int64_t version = tensor_version(input);
  std::vector<NodePtr<BranchInput>> begins(branches.size());
  std::vector<at::Tensor> outputs(branches.size());
  route.run(branches.size(), ForkPass::forward, [&](std::size_t k) {
    const std::uint64_t first = at::sequence_number::peek();
    begins[k] = make_node<BranchInput>();
    outputs[k] = branches[k](tracks ? begun_at(begins[k], input) : input);
    if (tensor_version(input) != version)
      throw Error(
          "ForkJoin: branch " + std::to_string(k) +
          " writes into its input, which the other branches read; let it write into a copy");
    if (goes_beyond(outputs[k], first))
      throw Error("ForkJoin: branch " + std::to_string(k) +
                  " reads another tensor of the stage, whose gradient would be lost; make it part "
                  "of the input");
  });
  const auto has_gradient = [](const at::Tensor& output) { return output.requires_grad(); };
  if (!tracks || std::none_of(outputs.begin(), outputs.end(), has_gradient)) return outputs;
  return joined_to(input, std::move(route), std::move(begins), std::move(outputs));
}

}  // namespace slipstream
