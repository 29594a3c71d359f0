#include "core/recycling_memory.h"

namespace slipstream {

RecyclingMemory::~RecyclingMemory() {
  Lock lock(mutex_);
  free_blocks();
}

void RecyclingMemory::free_blocks() {
  for (const auto& [kind, pointer] : kept_) upstream_.deallocate(pointer, kind.first, kind.second);
  kept_.clear();
}

void* RecyclingMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  Lock lock(mutex_);
  const auto found = kept_.find({bytes, alignment});
  if (found != kept_.end()) {
    void* pointer = found->second;
    kept_.erase(found);
    return pointer;
  }
  // Blocks of other sizes are freed first. Otherwise runs with different batch sizes would add up
  // page-locked memory that none of them uses.
  free_blocks();
  return upstream_.allocate(bytes, alignment);
}

void RecyclingMemory::do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  Lock lock(mutex_);
  kept_.emplace(Kind{bytes, alignment}, pointer);
}

}  // namespace slipstream
