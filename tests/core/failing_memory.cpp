#include "core/failing_memory.h"

#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
thread_local std::int64_t left = kEndless;

}  // namespace

void* operator new(std::size_t bytes) {
  if (left <= 0) throw std::bad_alloc();
  if (left != kEndless) --left;
  if (void* block = std::malloc(bytes > 0 ? bytes : 1)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }

namespace slipstream::test {

MemoryEnds::MemoryEnds(std::int64_t first) { left = first; }
MemoryEnds::~MemoryEnds() { left = kEndless; }

}  // namespace slipstream::test
