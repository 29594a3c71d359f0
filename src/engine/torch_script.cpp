#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "engine/imported.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace jit = torch::jit;

/// Returns a module whose parameters and buffers are the same tensors as those of `script`, under
/// the same names.
std::shared_ptr<torch::nn::Module> make_module(const jit::Module& script) {
  auto weights = std::make_shared<torch::nn::Module>("TorchScript");
  for (const auto& item : script.named_parameters(false))
    weights->register_parameter(item.name, item.value, false);
  for (const auto& item : script.named_buffers(false))
    weights->register_buffer(item.name, item.value);
  for (const auto& child : script.named_children())
    weights->register_module(child.name, make_module(child.value));
  return weights;
}

class TorchScript final : public Imported {
 public:
  TorchScript(const std::filesystem::path& file, std::vector<std::string> inputs,
              std::vector<std::string> outputs)
      : Imported(file, std::move(inputs), std::move(outputs)) {
    read_file();
    check_arguments();
  }

  /// Moves the module by reading the file again, because the constants in a trace belong to the
  /// device that they were read for.
  void to(c10::Device device, bool) override {
    if (device == device_) return;
    device_ = device;
    read_file();
  }

 private:
  void read_file() {
    try {
      script_ = jit::load(file_, device_);
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      throw Refused(file_ + ": this PyTorch cannot read it as a module of torch.jit.save (" +
                    failure_reason(error) +
                    "); save it with torch.jit.script(module).save(file), in this version of "
                    "PyTorch or an older one");
    }
    script_.eval();
    const auto weights = make_module(script_);
    weights->eval();
    constexpr const char* kName = "script";
    if (named_children().contains(kName))
      replace_module(kName, weights);
    else
      register_module(kName, weights);
  }

  void check_arguments() const {
    const auto method = script_.find_method("forward");
    if (!method) throw Refused(file_ + ": its module has no forward(); save a module that has one");
    const auto& arguments = method->function().getSchema().arguments();
    std::size_t needed = 0;
    for (const auto& argument : arguments) needed += argument.default_value() ? 0 : 1;
    if (inputs_.size() + 1 >= needed && inputs_.size() + 1 <= arguments.size()) return;
    throw Refused(file_ + ": its forward() takes " + std::to_string(needed - 1) +
                  (needed < arguments.size() ? " or more" : "") + " arguments, but " +
                  std::to_string(inputs_.size()) + " inputs were named; give one name for each");
  }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) override {
    // TorchScript's optimizer fuses operations only after the first calls, which changes bits.
    const jit::GraphOptimizerEnabledGuard unoptimized(false);
    try {
      return collect_tensors(script_.forward({inputs.begin(), inputs.end()}));
    } catch (const std::runtime_error& error) {
      // The interpreter converts errors of operations to text, so running out of memory is
      // recognized by the message.
      TORCH_CHECK_WITH(
          OutOfMemoryError,
          std::string_view(error.what()).find("CUDA out of memory") == std::string_view::npos,
          error.what());
      throw;
    }
  }

  std::vector<at::Tensor> collect_tensors(const jit::IValue& value) const {
    if (value.isTensor()) return {value.toTensor()};
    if (value.isTensorList()) return value.toTensorVector();
    std::vector<at::Tensor> tensors;
    if (value.isTuple())
      for (const jit::IValue& part : value.toTupleRef().elements())
        if (part.isTensor()) tensors.push_back(part.toTensor());
    if (tensors.empty() || tensors.size() != value.toTupleRef().elements().size())
      throw Error(file_ + ": it returned a " + value.type()->repr_str() +
                  "; let forward() return a tensor, or a tuple or list of tensors");
    return tensors;
  }

  jit::Module script_;
  c10::Device device_ = c10::kCPU;
};

}  // namespace

FrozenStage frozen_torchscript(const std::filesystem::path& file, std::vector<std::string> inputs,
                               std::vector<std::string> outputs) {
  return make_stage(std::make_shared<TorchScript>(file, std::move(inputs), std::move(outputs)));
}

}  // namespace slipstream
