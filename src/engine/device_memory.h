#pragma once

#include <memory_resource>

namespace slipstream {

/// Memory of the current CUDA device from PyTorch's allocator, which counts it and gives up its
/// cache for it. What is handed out is idle: allocating waits for the thread's current stream, the
/// only one that may still use a block of the allocator's cache.
class DeviceMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;
};

}  // namespace slipstream
