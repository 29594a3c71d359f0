#include "slipstream/engine/stage.h"

#include <torch/nn/module.h>

#include <unordered_set>

namespace slipstream {
namespace {

std::string quoted(const std::string& name) { return "'" + name + "'"; }

void add_storages(const torch::nn::Module& module, std::unordered_set<const void*>& storages) {
  for (const at::Tensor& tensor : module.parameters()) storages.insert(tensor.storage().data());
  for (const at::Tensor& tensor : module.buffers()) storages.insert(tensor.storage().data());
}

}  // namespace

FrozenStage frozen(ModuleRef module, std::string input, std::string output) {
  auto run = [forward = std::move(module.forward_batch), input = std::move(input),
              output = std::move(output)](Batch& batch) {
    batch.set(output, forward(batch, input));
  };
  return {std::move(module.module), std::move(run)};
}

FrozenStage frozen(std::function<void(Batch&)> function) { return {nullptr, std::move(function)}; }

void freeze(torch::nn::Module& module) {
  module.eval();
  for (at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(false);
}

std::vector<std::string> find_problems(const std::string& name, const FrozenStage& stage,
                                       const TrainStep& train) {
  std::vector<std::string> problems;
  if (stage.module == nullptr) return problems;
  const std::string who = "stage " + quoted(name) + ": ";
  for (const auto& item : stage.module->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    problems.push_back(who + "parameter " + quoted(item.key()) +
                       " requires gradients, but a stage before the training stage must not "
                       "change; call slipstream::freeze(*module)");
    break;
  }
  for (const auto& module : stage.module->modules()) {
    if (!module->is_training()) continue;
    problems.push_back(who + "module " + quoted(module->name()) +
                       " is in training mode, so it may change its buffers or use random numbers; "
                       "call slipstream::freeze(*module)");
    break;
  }
  std::unordered_set<const void*> trained, own;
  for (const NamedModule& each : train.modules()) add_storages(*each.module, trained);
  add_storages(*stage.module, own);
  for (const void* storage : own) {
    if (storage == nullptr || !trained.contains(storage)) continue;
    problems.push_back(who +
                       "shares a parameter or buffer with the trained stage, so running it in "
                       "advance would change the result; give it a copy");
    break;
  }
  return problems;
}

}  // namespace slipstream
