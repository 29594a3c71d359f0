#pragma once

#include <cstddef>

namespace slipstream {

/// Returns the number of calls of operator new so far, by any thread. Works in programs that link
/// allocation_counter.cpp.
std::size_t allocations();
/// Returns the number of bytes that such a program has allocated with operator new and not freed.
std::size_t allocated_bytes();

}  // namespace slipstream
