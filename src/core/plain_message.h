#pragma once

#include <exception>
#include <string>

namespace slipstream {

/// Returns true if host memory ran out: std::bad_alloc, or the exception that PyTorch's allocator
/// throws instead.
bool is_out_of_memory(const std::exception& error);

/// Describes an errno value in words.
std::string errno_message(int error);

/// Returns error.what(), or advice on memory if host memory ran out.
std::string plain_message(const std::exception& error);

/// Returns the message of a JSON library exception without its leading exception number.
std::string json_problem(const std::exception& error);

}  // namespace slipstream
