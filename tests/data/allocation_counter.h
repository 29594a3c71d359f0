#pragma once

#include <cstddef>

namespace slipstream {

/// Calls of operator new so far, by any thread of a program that links allocation_counter.cpp.
std::size_t allocations();

}  // namespace slipstream
