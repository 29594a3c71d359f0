#include "engine/environment.h"

#include <torch/version.h>

#include "cuda/cuda.h"

namespace slipstream {

Environment collect_environment(const Context& context) {
  std::optional<GpuInfo> gpu;
  if (context.kind() == DeviceKind::cuda) {
    const auto all = cuda::devices();
    const cuda::DeviceInfo& device = all.at(static_cast<std::size_t>(context.device().index()));
    gpu = GpuInfo{device.name, cuda::driver_version(), cuda::runtime_version(),
                  std::to_string(device.major) + "." + std::to_string(device.minor),
                  device.memory_bytes};
  }
  Environment environment = probe_environment(TORCH_VERSION, std::move(gpu));
  if (context.kind() == DeviceKind::cuda)
    for (std::string& hindrance : cuda::overlap_hindrances())
      environment.warnings.push_back(std::move(hindrance));
  return environment;
}

}  // namespace slipstream
