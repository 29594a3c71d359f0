#pragma once

#include <map>
#include <memory_resource>

#include "core/sync.h"

namespace slipstream {

/// Keeps freed blocks of `upstream` for later requests of the same size and alignment. A request
/// that no kept block fits first returns all kept blocks to `upstream`. It is meant for a few large
/// blocks that are slow to allocate (page-locked slabs), which one run after another reuses.
/// Thread-safe.
class RecyclingMemory final : public std::pmr::memory_resource {
 public:
  explicit RecyclingMemory(std::pmr::memory_resource& upstream) : upstream_(upstream) {}
  ~RecyclingMemory() override;
  RecyclingMemory(const RecyclingMemory&) = delete;
  RecyclingMemory& operator=(const RecyclingMemory&) = delete;

 private:
  using Kind = std::pair<std::size_t, std::size_t>;  ///< bytes, alignment

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
  void free_blocks() SLIPSTREAM_REQUIRES(mutex_);

  std::pmr::memory_resource& upstream_;
  Mutex mutex_;
  std::multimap<Kind, void*> kept_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
