#pragma once

#include <cstdint>

namespace slipstream::test {

/// While an object of this class exists, operator new throws std::bad_alloc on this thread from
/// call number `first`. Works only in programs that link failing_memory.cpp.
class MemoryEnds {
 public:
  explicit MemoryEnds(std::int64_t first);
  ~MemoryEnds();
  MemoryEnds(const MemoryEnds&) = delete;
  MemoryEnds& operator=(const MemoryEnds&) = delete;
};

}  // namespace slipstream::test
