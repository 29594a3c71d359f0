#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {

/// A fixed number of slots that numbered batches reuse cyclically: batch n is in slot n modulo
/// depth. Not thread-safe.
template <typename T>
class SlotRing {
 public:
  explicit SlotRing(std::size_t depth) : slots_(depth) { ensure(depth > 0, "a ring has slots"); }

  std::size_t depth() const { return slots_.size(); }
  std::size_t slot_index(std::uint64_t batch) const { return batch % slots_.size(); }
  T& of(std::uint64_t batch) { return slots_[slot_index(batch)]; }
  T& slot(std::size_t index) { return slots_[index]; }
  auto begin() { return slots_.begin(); }
  auto end() { return slots_.end(); }

 private:
  std::vector<T> slots_;
};

}  // namespace slipstream
