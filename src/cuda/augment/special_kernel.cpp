#include "cuda/augment/special_kernel.h"

#include <nvrtc.h>

#include <vector>

#include "cuda/augment/device_headers.h"
#include "cuda/cuda.h"
#include "slipstream/core/error.h"

namespace slipstream::augment {
namespace {

void check_nvrtc(nvrtcResult result, const std::string& log = {}) {
  if (result == NVRTC_SUCCESS) return;
  throw Error("a kernel could not be compiled: " + std::string(nvrtcGetErrorString(result)) +
              (log.empty() ? "" : "\n" + log));
}

std::string compile_log(nvrtcProgram program) {
  std::size_t size = 0;
  check_nvrtc(nvrtcGetProgramLogSize(program, &size));
  std::string log(size, '\0');
  check_nvrtc(nvrtcGetProgramLog(program, log.data()));
  return log;
}

std::string architecture_of_device() {
  int device = 0;
  int major = 0;
  int minor = 0;
  cuda::check_cuda(cudaGetDevice(&device));
  cuda::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  cuda::check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

}  // namespace

std::string compiled(const std::string& source, const std::string& architecture) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const DeviceHeader& header : device_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  nvrtcProgram raw = nullptr;
  check_nvrtc(nvrtcCreateProgram(&raw, source.c_str(), "pass.cu", static_cast<int>(names.size()),
                                 texts.data(), names.data()));
  const std::shared_ptr<std::remove_pointer_t<nvrtcProgram>> program(
      raw, [](nvrtcProgram held) { static_cast<void>(nvrtcDestroyProgram(&held)); });
  const std::string target = "--gpu-architecture=" + architecture;
  // No contraction, exact division and square root, and subnormals: the bits must equal those of
  // the CPU.
  const char* options[] = {target.c_str(),
                           "--std=c++20",
                           "--device-as-default-execution-space",
                           "--fmad=false",
                           "--prec-div=true",
                           "--prec-sqrt=true",
                           "--ftz=false",
                           "--extra-device-vectorization"};
  const nvrtcResult result =
      nvrtcCompileProgram(raw, static_cast<int>(std::size(options)), options);
  if (result != NVRTC_SUCCESS) check_nvrtc(result, compile_log(raw));
  std::size_t size = 0;
  check_nvrtc(nvrtcGetCUBINSize(raw, &size));
  std::string code(size, '\0');
  check_nvrtc(nvrtcGetCUBIN(raw, code.data()));
  return code;
}

SpecialKernel::SpecialKernel(const SpecialPurpose& purpose)
    : shape_(purpose.shape),
      threads_(purpose.pass.stencil < purpose.pass.count ? kBlurThreads : kPlainThreads) {
  const std::string code = compiled(special_source(purpose), architecture_of_device());
  cudaLibrary_t library = nullptr;
  cuda::check_cuda(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  library_ = {library, [](void* held) {
                static_cast<void>(cudaLibraryUnload(static_cast<cudaLibrary_t>(held)));
              }};
  cuda::check_cuda(cudaLibraryGetKernel(&kernel_, library, "special_pass"));
  cuda::check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel_),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shape_.shared_bytes)));
}

void SpecialKernel::launch(const PassMemory& memory, cudaStream_t stream) const {
  PassMemory copy = memory;
  void* arguments[] = {&copy};
  const auto blocks = static_cast<unsigned>(shape_.grid.tiles * memory.batch_size);
  cuda::check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), blocks, threads_,
                                    arguments, shape_.shared_bytes, stream));
}

}  // namespace slipstream::augment
