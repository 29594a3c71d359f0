#pragma once

#include <memory_resource>

namespace slipstream {

/// Device memory of the current CUDA device from PyTorch's caching allocator. The allocator
/// includes it in its statistics and frees cached blocks to make space for it. The returned memory
/// is idle: allocating waits for the thread's current stream, because only that stream may still be
/// using a block from the allocator's cache.
class DeviceMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;
};

}  // namespace slipstream
