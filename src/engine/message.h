#pragma once

#include <exception>
#include <string>

namespace slipstream {

/// Returns what(), for PyTorch's errors without the backtrace, and plain_message() if memory ran
/// out.
std::string describe_error(const std::exception& error);

}  // namespace slipstream
