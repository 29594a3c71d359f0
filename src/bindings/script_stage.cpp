#include "bindings/script_stage.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/python/module_python.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>

namespace slipstream {
namespace {

namespace py = pybind11;
namespace jit = torch::jit;

/// Whether a block needs neither the GIL nor PyTorch's generators, and calls no function that is
/// only known at run time. Operators that are not PyTorch's may be written in Python, so they count
/// as needing the GIL. REQUIRES: all calls are inlined
bool stands_alone(const jit::Block& block) {
  return std::all_of(block.nodes().begin(), block.nodes().end(), [](const jit::Node* node) {
    const c10::Symbol kind = node->kind();
    const bool is_opaque = (!kind.is_aten() && !kind.is_prim()) || kind == jit::prim::PythonOp ||
                           kind == jit::prim::CallMethod || kind == jit::prim::CallFunction ||
                           kind == c10::Symbol::fromQualString("aten::manual_seed") ||
                           node->hasAttribute(jit::attr::Subgraph);
    return !is_opaque && !node->isNondeterministic() &&
           std::all_of(node->blocks().begin(), node->blocks().end(),
                       [](const jit::Block* inner) { return stands_alone(*inner); });
  });
}

/// Whether the tensor has no subclass in Python.
bool is_plain(const at::Tensor& tensor) {
  return !tensor.unsafeGetTensorImpl()->key_set().has_any(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
}

bool has_plain_weights(const jit::Module& module) {
  for (const at::Tensor& each : module.parameters())
    if (!is_plain(each)) return false;
  for (const at::Tensor& each : module.buffers())
    if (!is_plain(each)) return false;
  return true;
}

}  // namespace

ScriptStage::ScriptStage(jit::Module module)
    : module_(std::move(module)), forward_(module_.get_method("forward")) {}

std::shared_ptr<const ScriptStage> ScriptStage::of(py::handle module) {
  std::optional<jit::Module> script = jit::as_module(module);
  if (!script || !script->find_method("forward")) return nullptr;
  const c10::ClassTypePtr type = script->type();
  if (!type->getForwardHooks().empty() || !type->getForwardPreHooks().empty()) return nullptr;
  const auto* function =
      dynamic_cast<jit::GraphFunction*>(&script->get_method("forward").function());
  if (function == nullptr) return nullptr;
  const std::shared_ptr<jit::Graph> graph = function->graph()->copy();
  jit::Inline(*graph);
  if (!stands_alone(*graph->block()) || !has_plain_weights(*script)) return nullptr;
  return std::shared_ptr<const ScriptStage>(new ScriptStage(*std::move(script)));
}

ScriptStage::Call ScriptStage::call(const py::tuple& arguments) const {
  return {jit::createStackForSchema(forward_.function().getSchema(), jit::tuple_slice(arguments),
                                    {}, module_._ivalue()),
          {},
          jit::getGraphExecutorOptimize()};
}

void ScriptStage::run(Call& call) const {
  const at::ThreadLocalStateGuard modes(call.modes);
  const jit::GraphOptimizerEnabledGuard optimized(call.is_optimized);
  const at::NoGradGuard no_gradients;
  forward_.function().run(call.stack);
}

py::object ScriptStage::result(const Call& call) { return jit::toPyObject(call.stack.back()); }

void ScriptStage::for_each_tensor(const Call& call,
                                  const std::function<void(const at::Tensor&)>& function) {
  call.stack.back().visit([&](const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) function(value.toTensor());
    return false;
  });
}

}  // namespace slipstream
