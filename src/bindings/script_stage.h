#pragma once

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>

namespace slipstream {

/// Calls forward() of a TorchScript module on a thread without the GIL.
class ScriptStage {
 public:
  /// A prepared call, and later its result.
  struct Call {
    torch::jit::Stack stack;
    at::ThreadLocalState modes;  ///< modes of the thread that prepared it, for example autocast
    bool is_optimized;           ///< torch.jit.optimized_execution() on that thread
  };

  /// Creates the stage of a torch.jit.ScriptModule. Returns nullptr if the module may call Python
  /// or cannot be analyzed: if it calls other operators than PyTorch's, uses random numbers, has
  /// hooks, or calls functions that are not known in advance. Needs the GIL.
  static std::shared_ptr<const ScriptStage> of(pybind11::handle module);

  /// Prepares forward(*arguments). Needs the GIL. Throws what a call of the module throws.
  Call call(const pybind11::tuple& arguments) const;
  /// Calls forward() on the current stream, without gradients. Throws what the module throws.
  void run(Call& call) const;
  /// Returns the result. Needs the GIL. REQUIRES: run() has returned
  static pybind11::object result(const Call& call);
  static void for_each_tensor(const Call& call,
                              const std::function<void(const at::Tensor&)>& function);

 private:
  explicit ScriptStage(torch::jit::Module module);

  torch::jit::Module module_;
  torch::jit::Method forward_;
};

/// Whether a TorchScript module cannot be a ScriptStage. For tests.
inline bool needs_python(const pybind11::object& script) {
  return ScriptStage::of(script) == nullptr;
}

}  // namespace slipstream
