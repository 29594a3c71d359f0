#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <mutex>
#include <new>

namespace slipstream {

/// Counts the allocated bytes, and fails after `allocations` allocations.
class CountingMemory final : public std::pmr::memory_resource {
 public:
  explicit CountingMemory(std::size_t allocations = std::numeric_limits<std::size_t>::max())
      : left_(allocations) {}

  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  std::size_t peak_bytes() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) throw std::bad_alloc();
    --left_;
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(pointer, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  mutable std::mutex mutex_;
  std::size_t left_;
  std::size_t bytes_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace slipstream
