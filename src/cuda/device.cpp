#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "cuda/cuda.h"
#include "cuda/nvml.h"
#include "cuda/symbol.h"
#include "cuda/teardown.h"

namespace slipstream::cuda {
namespace {

bool ends_context(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

std::string version_text(int version) {
  if (version == 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DeviceInfo describe(int index) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index));
  DeviceInfo info;
  info.index = index;
  info.name = static_cast<const char*>(properties.name);
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  std::array<char, 32> address{};
  check_cuda(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), index));
  info.pci_address = address.data();
  return info;
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread changes it
  return value == nullptr ? "" : value;
}

}  // namespace

void check_cuda(cudaError_t status, Where where) {
  if (status == cudaSuccess) return;
  // CUDA also stores the error, which the next unrelated call would return.
  static_cast<void>(cudaGetLastError());
  const std::string what = std::string(where.file) + ":" + std::to_string(where.line) + ": " +
                           cudaGetErrorName(status) + ": " + cudaGetErrorString(status);
  if (!ends_context(status)) throw Error(what);
  throw DeviceLost(what + "; this process can no longer use the device: start it again");
}

std::vector<DeviceInfo> devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  check_cuda(status);
  std::vector<DeviceInfo> found;
  found.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) found.push_back(describe(i));
  return found;
}

std::string driver_version() {
  const nvml::Library library;
  if (!library.init || !library.shutdown || !library.driver_version) return "";
  if (library.init() != nvml::kSuccess) return "";
  std::array<char, 96> text{};
  const nvml::Return result =
      library.driver_version(text.data(), static_cast<unsigned>(text.size() - 1));
  library.shutdown();
  return result == nvml::kSuccess ? text.data() : "";
}

std::string runtime_version() {
  int version = 0;
  check_cuda(cudaRuntimeGetVersion(&version));
  return version_text(version);
}

void ask_for_queues() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // NOLINT(concurrency-mt-unsafe)
}

std::vector<std::string> overlap_hindrances() {
  std::vector<std::string> found;
  if (variable("CUDA_DEVICE_MAX_CONNECTIONS") == "1") {
    found.emplace_back(
        "CUDA_DEVICE_MAX_CONNECTIONS=1 puts all streams into one hardware queue: unset it");
  }
  const std::string_view blocking = variable("CUDA_LAUNCH_BLOCKING");
  if (!blocking.empty() && blocking != "0") {
    found.emplace_back("CUDA_LAUNCH_BLOCKING=" + std::string(blocking) +
                       " makes the host wait for every kernel: unset it");
  }
  return found;
}

DeviceGuard::DeviceGuard(int device) : previous_(device) {
  check_cuda(cudaGetDevice(&previous_));
  if (previous_ != device) check_cuda(cudaSetDevice(device));
}

DeviceGuard::DeviceGuard(int device, std::nothrow_t) noexcept : previous_(device) {
  ignore_failure(cudaGetDevice(&previous_));
  if (previous_ != device) ignore_failure(cudaSetDevice(device));
}

DeviceGuard::~DeviceGuard() {
  int current = previous_;
  ignore_failure(cudaGetDevice(&current));
  if (current != previous_) ignore_failure(cudaSetDevice(previous_));
}

void begin_thread(int device) {
  check_cuda(cudaSetDevice(device));
  int mode = cudaStreamCaptureModeThreadLocal;
  exchange_capture_mode(mode);
}

void exchange_capture_mode(int& mode) noexcept {
  // Through the driver API, because the runtime's function would create a context.
  static const Symbol<int(int*)> exchange(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
                                          "cuThreadExchangeStreamCaptureMode");
  if (exchange) exchange(&mode);
}

}  // namespace slipstream::cuda
