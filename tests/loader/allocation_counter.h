#pragma once

#include <cstddef>

namespace slipstream {

/// Calls of operator new so far, by any thread of a program that links allocation_counter.cpp.
std::size_t allocations();
/// That such a program holds by operator new.
std::size_t allocated_bytes();

}  // namespace slipstream
