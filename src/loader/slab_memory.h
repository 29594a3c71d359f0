#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include "core/number_text.h"
#include "loader/slab_layout.h"
#include "slipstream/core/error.h"

namespace slipstream {

/// Memory for `count` slabs of `bytes` bytes, filled with zeros and aligned to kSlabAlignment.
/// Throws Error if there is not enough memory.
class SlabMemory {
 public:
  SlabMemory(std::size_t count, std::size_t bytes, std::pmr::memory_resource* memory)
      : bytes_(bytes), memory_(memory != nullptr ? memory : std::pmr::get_default_resource()) {
    slabs_.reserve(count);
    try {
      while (slabs_.size() < count) slabs_.push_back(allocate());
    } catch (const std::bad_alloc&) {
      throw Error(
          "out of memory for prefetched batches: " + std::to_string(count) + " of " +
          size_text(static_cast<double>(bytes)) +
          " each; use a smaller batch size or image size, or prefetch fewer (--prefetch-factor)");
    }
  }
  SlabMemory(const SlabMemory&) = delete;
  SlabMemory& operator=(const SlabMemory&) = delete;

  std::size_t size() const { return slabs_.size(); }
  std::byte* operator[](std::size_t slab) const { return slabs_[slab].get(); }
  /// Returns the slab, which is valid as long as the pointer exists.
  std::shared_ptr<const std::byte> shared(std::size_t slab) const { return slabs_[slab]; }

 private:
  std::shared_ptr<std::byte> allocate() const {
    void* block = memory_->allocate(bytes_, kSlabAlignment);
    return {static_cast<std::byte*>(std::memset(block, 0, bytes_)),
            [bytes = bytes_, memory = memory_](std::byte* slab) {
              memory->deallocate(slab, bytes, kSlabAlignment);
            }};
  }

  std::size_t bytes_;
  std::pmr::memory_resource* memory_;
  // Shared, because callers may keep a slab after the loader has been destroyed.
  std::vector<std::shared_ptr<std::byte>> slabs_;
};

}  // namespace slipstream
