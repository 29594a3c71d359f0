#include <ATen/cpu/Utils.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/version.h>

#include <mutex>

#include "core/text.h"
#include "engine/imported.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using torch::inductor::AOTIModelPackageLoader;

constexpr const char* kModel = "model";
constexpr const char* kRemedy = "; compile the package again as described in docs/own-models.md";
constexpr std::string_view kChannelsLast = " channels_last";

/// Returns true if `text` matches `form`, in which each '*' matches a number.
bool fits(std::string_view form, std::string_view text) {
  while (!form.empty() && !text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const bool is_number = form.front() == '*' && digits > 0;
    if (!is_number && form.front() != text.front()) return false;
    form.remove_prefix(1);
    text.remove_prefix(is_number ? digits : 1);
  }
  return form.empty() && text.empty();
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(';'), list.size());
    parts.emplace_back(without_blanks(list.substr(0, end)));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

/// Returns the instruction sets that the package was compiled for but this processor lacks; "" if
/// it has all.
std::string missing_instructions(const std::string& compiled_for) {
  const auto has = at::cpu::get_cpu_capabilities();
  for (const auto& [name, capability] :
       {std::pair("AVX512", "avx512_f"), std::pair("AVX2", "avx2"), std::pair("AMX", "amx_tile")})
    if (compiled_for.find(name) != std::string::npos && has.contains(capability) &&
        !has.at(capability).toBool())
      return name;
  return "";
}

/// Returns true if a GPU of compute capability `major`.`minor` can run code compiled for
/// `compiled_for`.
bool runs_on(const std::string& compiled_for, int major, int minor) {
  if (compiled_for.find_first_not_of("0123456789") != std::string::npos) return true;
  return compiled_for.size() < 2 ||
         (compiled_for.substr(0, compiled_for.size() - 1) == std::to_string(major) &&
          compiled_for.back() - '0' <= minor);
}

class AotInductor final : public Imported {
 public:
  AotInductor(const std::filesystem::path& file, std::vector<std::string> inputs,
              std::vector<std::string> outputs)
      : Imported(file, std::move(inputs), std::move(outputs)) {
    try {
      metadata_ = AOTIModelPackageLoader::load_metadata_from_package(file_, kModel);
    } catch (const std::exception& error) {
      throw Refused(file_ + ": not a package of AOTInductor (" + failure_reason(error) + ")" +
                    kRemedy);
    }
    check_metadata();
  }

  void to(c10::Device device, bool) override {
    if (loader_ != nullptr && device == device_) return;
    check_device(device);
    const c10::DeviceGuard guard(device);
    loader_.reset();
    try {
      // In the multi-threaded mode, a run waits until the previous run has finished on the device,
      // which would block the host.
      constexpr bool kSingleThreaded = true;
      loader_ = std::make_unique<AOTIModelPackageLoader>(file_, kModel, kSingleThreaded, 1,
                                                         device.is_cuda() ? device.index() : -1);
    } catch (const std::exception& error) {
      throw Refused(file_ + ": it cannot be loaded for " + device.str() + " (" +
                    failure_reason(error) + ")" + kRemedy + " on this machine");
    }
    device_ = device;
  }

 private:
  std::string said(const std::string& key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? "" : found->second;
  }

  void check_metadata() {
    forms_ = split_list(said("slipstream_inputs"));
    const std::string outputs = said("slipstream_outputs");
    const std::string version = said("slipstream_torch");
    if (forms_.empty() || outputs.empty() || version.empty())
      throw Refused(file_ +
                    ": its metadata does not describe its inputs, and a compiled module does not "
                    "check shapes" +
                    kRemedy);
    std::vector<std::string> problems;
    const std::string own =
        std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + ".";
    if (!version.starts_with(own))
      problems.push_back(file_ + ": it was made by PyTorch " + version +
                         ", and this program has " TORCH_VERSION + kRemedy);
    const auto check_count = [&](const std::string& made_with, std::size_t named,
                                 const char* kind) {
      if (made_with != std::to_string(named))
        problems.push_back(file_ + ": it was made with " + made_with + " " + kind + ", but " +
                           std::to_string(named) + " were named; give one name for each");
    };
    check_count(std::to_string(forms_.size()), inputs_.size(), "inputs");
    check_count(outputs, outputs_.size(), "outputs");
    refuse(problems);
  }

  void check_device(c10::Device device) const {
    const std::string made_for = said("AOTI_DEVICE_KEY");
    const std::string kind = device.is_cuda() ? "cuda" : "cpu";
    if (made_for != kind)
      throw Refused(file_ + ": it was made for " + made_for + ", but the pipeline runs on " + kind +
                    kRemedy + ", with --device " + kind);
    const std::string missing = missing_instructions(said("AOTI_CPU_ISA"));
    if (!missing.empty())
      throw Refused(file_ + ": it was made for a processor with " + missing +
                    ", which this processor does not have" + kRemedy + " on this machine");
    if (!device.is_cuda()) return;
    const auto* gpu = at::cuda::getDeviceProperties(device.index());
    const std::string capability = said("AOTI_COMPUTE_CAPABILITY");
    if (!runs_on(capability, gpu->major, gpu->minor))
      throw Refused(file_ + ": it was made for GPUs of sm_" + capability + ", but " + device.str() +
                    " is sm_" + std::to_string(gpu->major) + std::to_string(gpu->minor) + kRemedy +
                    " on this machine");
  }

  at::Tensor checked(const at::Tensor& tensor, std::size_t index) const {
    std::string_view form = forms_[index];
    const bool channels_last = form.ends_with(kChannelsLast);
    if (channels_last) form.remove_suffix(kChannelsLast.size());
    if (!fits(form, describe_tensor(tensor)) || tensor.device() != device_)
      throw Error(file_ + ": it was made for " + inputs_[index] + " " + std::string(form) + " on " +
                  device_.str() + ", but got " + describe_tensor(tensor) + " on " +
                  tensor.device().str() + kRemedy + ", with these shapes");
    return tensor.contiguous(channels_last ? at::MemoryFormat::ChannelsLast
                                           : at::MemoryFormat::Contiguous);
  }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) override {
    if (loader_ == nullptr) throw Error(file_ + ": it is on no device; call to(device) first");
    std::vector<at::Tensor> taken;
    for (std::size_t i = 0; i < inputs.size(); ++i) taken.push_back(checked(inputs[i], i));
    // Autocast would change the dtypes that PyTorch's operations return, and the package was
    // compiled for fixed dtypes.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    void* stream =
        device_.is_cuda() ? c10::cuda::getCurrentCUDAStream(device_.index()).stream() : nullptr;
    const std::lock_guard lock(running_);
    return loader_->run(taken, stream);
  }

  std::unordered_map<std::string, std::string> metadata_;
  std::vector<std::string> forms_;  ///< descriptions of the inputs, as Python wrote them
  c10::Device device_ = c10::kCPU;
  std::unique_ptr<AOTIModelPackageLoader> loader_;
  std::mutex running_;
};

}  // namespace

FrozenStage frozen_aot_inductor(const std::filesystem::path& file, std::vector<std::string> inputs,
                                std::vector<std::string> outputs) {
  FrozenStage stage =
      make_stage(std::make_shared<AotInductor>(file, std::move(inputs), std::move(outputs)));
  stage.no_graph_reason =
      "a package of AOTInductor queries CUDA events between calls, which a capture does not allow";
  return stage;
}

}  // namespace slipstream
