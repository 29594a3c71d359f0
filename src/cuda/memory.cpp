#include <algorithm>

#include "core/number_text.h"
#include "cuda/cuda.h"
#include "cuda/teardown.h"

namespace slipstream::cuda {
namespace {

constexpr std::size_t kPinnedAlignment = 256;

[[noreturn]] void refuse(std::size_t bytes, cudaError_t status) {
  const std::string what = "cannot page-lock " + std::to_string(bytes) + " bytes (" +
                           size_text(static_cast<double>(bytes)) +
                           ") of host memory: " + cudaGetErrorName(status) + ": " +
                           cudaGetErrorString(status) + "; ";
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    throw Error(what + "page-locked memory needs a usable GPU: run on the CPU without pinning");
  }
  throw Error(
      what +
      "reduce the batch size, the depth or the number of prefetched batches (--prefetch-factor), "
      "raise the limit on locked memory (ulimit -l), or turn pinning off");
}

void check_allocation(cudaError_t status, std::size_t bytes) {
  try {
    check_cuda(status);
  } catch (const DeviceLost&) {
    // A lost device is not a lack of memory.
    throw;
  } catch (const Error&) {
    refuse(bytes, status);
  }
}

}  // namespace

void* PinnedMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  ensure(alignment <= kPinnedAlignment, "page-locked memory is aligned to at most 256 bytes");
  void* pointer = nullptr;
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  check_allocation(cudaHostAlloc(&pointer, size, cudaHostAllocPortable), bytes);
  in_use_bytes_ += bytes;
  return pointer;
}

void PinnedMemory::do_deallocate(void* pointer, std::size_t bytes, std::size_t) {
  ignore_failure(cudaFreeHost(pointer));
  in_use_bytes_ -= bytes;
}

bool PinnedMemory::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  return this == &other;
}

}  // namespace slipstream::cuda
