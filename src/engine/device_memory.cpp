#include "engine/device_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/cuda.h"
#include "slipstream/core/error.h"

namespace slipstream {

void* DeviceMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  ensure(alignment <= 512, "PyTorch's allocator aligns to 512 bytes");
  void* pointer = c10::cuda::CUDACachingAllocator::raw_alloc(bytes);
  try {
    // A block from the allocator's cache may still be in use by earlier work on the current stream.
    // The new owner may use other streams, which are not ordered after that work.
    cuda::check_cuda(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()));
  } catch (...) {
    do_deallocate(pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

void DeviceMemory::do_deallocate(void* pointer, std::size_t, std::size_t) {
  c10::cuda::CUDACachingAllocator::raw_delete(pointer);
}

bool DeviceMemory::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  return this == &other;
}

}  // namespace slipstream
