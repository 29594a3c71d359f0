#pragma once

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>

namespace slipstream {

/// forward() of a module of TorchScript, which a thread without Python's lock calls.
class ScriptStage {
 public:
  /// A call that was prepared, and then its result.
  struct Call {
    torch::jit::Stack stack;
    at::ThreadLocalState modes;  ///< of the thread that prepared it, such as autocast
    bool is_optimized;           ///< torch.jit.optimized_execution() of that thread
  };

  /// Of a torch.jit.ScriptModule. nullptr for one that calls more than PyTorch's own operators,
  /// which may be Python, draws random numbers, has hooks or calls what cannot be looked into.
  /// Needs Python's lock.
  static std::shared_ptr<const ScriptStage> of(pybind11::handle module);

  /// forward(*arguments). Needs Python's lock. Throws as calling the module does.
  Call call(const pybind11::tuple& arguments) const;
  /// Calls it, enqueued on the current stream, without gradients. Throws what the module throws.
  void run(Call& call) const;
  /// Needs Python's lock, and run().
  static pybind11::object result(const Call& call);
  static void for_each_tensor(const Call& call,
                              const std::function<void(const at::Tensor&)>& function);

 private:
  explicit ScriptStage(torch::jit::Module module);

  torch::jit::Module module_;
  torch::jit::Method forward_;
};

/// Whether a module of TorchScript is none. For tests.
inline bool needs_python(const pybind11::object& script) {
  return ScriptStage::of(script) == nullptr;
}

}  // namespace slipstream
