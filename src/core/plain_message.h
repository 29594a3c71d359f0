#pragma once

#include <exception>
#include <string>

namespace slipstream {

/// Whether memory of the host ran out: std::bad_alloc, or what PyTorch's allocator throws instead.
bool is_out_of_memory(const std::exception& error);

/// What an errno means, in words.
std::string errno_message(int error);

/// what(), or in words that memory ran out.
std::string plain_message(const std::exception& error);

/// What an exception of the JSON library says, without the number it begins with.
std::string json_problem(const std::exception& error);

}  // namespace slipstream
