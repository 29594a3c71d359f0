#include "cuda/gpu_meter.h"

#include <array>
#include <chrono>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/nvml.h"
#include "cuda/teardown.h"

namespace slipstream::cuda {
namespace {

constexpr std::chrono::milliseconds kShortestGpmInterval{100};

unsigned long long wall_clock_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

std::string to_text(nvml::Return result) {
  const std::string number = "NVML error " + std::to_string(result);
  return result == nvml::kNoPermission ? number + ", no permission" : number;
}

}  // namespace

struct GpuMeter::Impl {
  ~Impl();

  std::string open(const std::string& pci_address);
  std::string open_gpm();
  void read_gpm(GpuUse& use);
  void read_utilization(GpuUse& use);
  std::optional<unsigned> processes();

  nvml::Library library;
  bool is_initialized = false;
  nvml::Device device = nullptr;
  std::array<nvml::GpmSample, 2> gpm{};
  std::string note;      ///< why NVML cannot be read
  std::string gpm_note;  ///< why the GPM counters cannot be read
  unsigned long long start_us = 0;
  std::chrono::steady_clock::time_point start;
};

GpuMeter::Impl::~Impl() {
  for (nvml::GpmSample sample : gpm) {
    if (sample != nullptr) library.gpm_free(sample);
  }
  if (is_initialized) library.shutdown();
}

std::string GpuMeter::Impl::open(const std::string& pci_address) {
  if (!library.is_complete()) return "NVML (libnvidia-ml.so.1) is not installed";
  nvml::Return result = library.init();
  if (result != nvml::kSuccess) return "nvmlInit failed: " + to_text(result);
  is_initialized = true;
  result = library.find(pci_address.c_str(), &device);
  if (result == nvml::kSuccess) gpm_note = open_gpm();
  if (result == nvml::kSuccess) return "";
  return "NVML does not list the device at " + pci_address + ": " + to_text(result);
}

std::string GpuMeter::Impl::open_gpm() {
  if (!library.has_gpm()) return "this NVML is too old for GPM counters";
  nvml::GpmSupport support{nvml::kGpmVersion, 0};
  const nvml::Return result = library.gpm_support(device, &support);
  if (result != nvml::kSuccess || support.is_supported == 0) return "this GPU has no GPM counters";
  for (nvml::GpmSample& sample : gpm) {
    if (library.gpm_alloc(&sample) != nvml::kSuccess) return "no memory for GPM samples";
  }
  return "";
}

void GpuMeter::Impl::read_gpm(GpuUse& use) {
  if (!gpm_note.empty()) {
    use.note = gpm_note;
    return;
  }
  if (std::chrono::steady_clock::now() - start < kShortestGpmInterval) {
    use.note = "GPM counters need at least 100 ms";
    return;
  }
  nvml::Return result = library.gpm_get(device, gpm[1]);
  nvml::GpmMetrics metrics{nvml::kGpmVersion, 2, gpm[0], gpm[1], {}};
  metrics.metrics[0].id = nvml::kGpmSmUtil;
  metrics.metrics[1].id = nvml::kGpmDramBwUtil;
  if (result == nvml::kSuccess) result = library.gpm_metrics(&metrics);
  if (result != nvml::kSuccess) {
    use.note = "GPM counters cannot be read: " + to_text(result);
    return;
  }
  const auto share = [&use](const nvml::GpmMetric& metric) -> std::optional<double> {
    if (metric.status == nvml::kSuccess) return metric.value / 100;
    use.note = "a GPM counter cannot be read: " + to_text(metric.status);
    return std::nullopt;
  };
  use.sm_activity = share(metrics.metrics[0]);
  use.dram_use = share(metrics.metrics[1]);
}

void GpuMeter::Impl::read_utilization(GpuUse& use) {
  unsigned count = 0;
  int type = 0;
  constexpr int kWhat = nvml::kGpuUtilizationSamples;
  // Without a buffer, NVML returns the number of samples.
  nvml::Return result = library.samples(device, kWhat, start_us, &type, &count, nullptr);
  std::vector<nvml::Sample> samples(count);
  if (result == nvml::kSuccess && count > 0) {
    result = library.samples(device, kWhat, start_us, &type, &count, samples.data());
  }
  if (result != nvml::kSuccess || count == 0) {
    use.note += std::string(use.note.empty() ? "" : "; ") + "no utilization samples since start()";
    return;
  }
  double sum = 0;
  for (unsigned i = 0; i < count; ++i) sum += samples[i].value.percent;
  use.gpu_utilization = sum / count / 100;
}

std::optional<unsigned> GpuMeter::Impl::processes() {
  unsigned count = 0;
  if (!library.processes) return std::nullopt;
  const nvml::Return result = library.processes(device, &count, nullptr);
  const bool is_known = result == nvml::kSuccess || result == nvml::kInsufficientSize;
  return is_known && count > 0 ? std::optional(count) : std::nullopt;
}

GpuMeter::GpuMeter(int device) : impl_(std::make_unique<Impl>()) {
  std::array<char, 32> address{};
  const cudaError_t status =
      cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device);
  ignore_failure(status);
  impl_->note = status == cudaSuccess ? impl_->open(address.data())
                                      : "no CUDA device " + std::to_string(device) + " (" +
                                            cudaGetErrorString(status) + ")";
  start();
}

GpuMeter::GpuMeter(const std::string& pci_address) : impl_(std::make_unique<Impl>()) {
  impl_->note = impl_->open(pci_address);
  start();
}

GpuMeter::~GpuMeter() = default;

void GpuMeter::start() {
  impl_->start = std::chrono::steady_clock::now();
  impl_->start_us = wall_clock_us();
  if (!impl_->note.empty() || !impl_->gpm_note.empty()) return;
  const nvml::Return result = impl_->library.gpm_get(impl_->device, impl_->gpm[0]);
  if (result == nvml::kSuccess) return;
  impl_->gpm_note = "GPM counters cannot be read: " + to_text(result);
}

GpuUse GpuMeter::use() {
  GpuUse use;
  use.note = impl_->note;
  if (!use.note.empty()) return use;
  impl_->read_gpm(use);
  impl_->read_utilization(use);
  use.processes = impl_->processes();
  return use;
}

}  // namespace slipstream::cuda
