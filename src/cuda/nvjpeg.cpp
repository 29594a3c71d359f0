#include "cuda/nvjpeg.h"

#include <array>

#include "slipstream/core/error.h"

namespace slipstream::cuda::nvjpeg {
namespace {

constexpr int kCudaMajor = CUDART_VERSION / 1000;

std::string soname() { return "libnvjpeg.so." + std::to_string(kCudaMajor); }

/// Returns the folder of the CUDA runtime that this program uses, because packages install their
/// libraries into one folder.
std::string folder_of_runtime() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&cudaGetDeviceCount), &info) == 0) return {};
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}

/// Opens a library that stays loaded until the process ends, because nvJPEG contains its own CUDA
/// runtime, which cannot be unloaded safely.
void* open(const std::string& file) {
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

void* open_first(const std::vector<std::string>& places) {
  for (const std::string& place : places) {
    if (void* handle = open(place)) return handle;
  }
  throw Refused(
      "the wire format jpeg is not available: " + soname() +
      " (nvJPEG) was not found; install it with the CUDA toolkit or with 'pip install "
      "nvidia-nvjpeg' and add its folder to LD_LIBRARY_PATH, or use the wire format plain");
}

}  // namespace

std::string to_string(Status status) {
  constexpr std::array<const char*, 11> kNames = {"SUCCESS",
                                                  "NOT_INITIALIZED",
                                                  "INVALID_PARAMETER",
                                                  "BAD_JPEG",
                                                  "JPEG_NOT_SUPPORTED",
                                                  "ALLOCATOR_FAILURE",
                                                  "EXECUTION_FAILED",
                                                  "ARCH_MISMATCH",
                                                  "INTERNAL_ERROR",
                                                  "IMPLEMENTATION_NOT_SUPPORTED",
                                                  "INCOMPLETE_BITSTREAM"};
  const auto at = static_cast<std::size_t>(status);
  return at < kNames.size() ? kNames[at] : "status " + std::to_string(status);
}

std::vector<std::string> default_locations() {
  return {soname(), folder_of_runtime() + soname(), "/usr/local/cuda/lib64/" + soname()};
}

Library::Library(const std::vector<std::string>& places) : handle(open_first(places)) {
  const bool is_complete = create && destroy && create_state && destroy_state && create_stream &&
                           destroy_stream && parse_header && frame_size && subsampling &&
                           encoding && components && is_supported && begin_batch && decode_batch;
  if (is_complete) return;
  throw Refused("the wire format jpeg is not available: " + soname() +
                " lacks functions of CUDA 12.1 and later; install a newer nvJPEG, or use the wire "
                "format plain");
}

}  // namespace slipstream::cuda::nvjpeg
