#pragma once

#include <cstdint>

namespace slipstream::test {

/// In a program that links failing_memory.cpp, while it lives: on this thread, operator new throws
/// std::bad_alloc from the call numbered `first` on.
class MemoryEnds {
 public:
  explicit MemoryEnds(std::int64_t first);
  ~MemoryEnds();
  MemoryEnds(const MemoryEnds&) = delete;
  MemoryEnds& operator=(const MemoryEnds&) = delete;
};

}  // namespace slipstream::test
