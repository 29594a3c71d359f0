#include "loader/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> count{0};
std::atomic<std::size_t> held_bytes{0};

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, size);
  held_bytes.fetch_add(malloc_usable_size(block), std::memory_order_relaxed);
  return block;
}

void free_block(void* block) noexcept {
  held_bytes.fetch_sub(malloc_usable_size(block), std::memory_order_relaxed);
  std::free(block);
}

void* counted_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void* block = counted(bytes, alignment)) return block;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_or_throw(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { free_block(block); }
void operator delete(void* block, std::size_t) noexcept { free_block(block); }
void operator delete(void* block, std::align_val_t) noexcept { free_block(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { free_block(block); }

std::size_t slipstream::allocations() { return count.load(std::memory_order_relaxed); }

std::size_t slipstream::allocated_bytes() { return held_bytes.load(std::memory_order_relaxed); }
