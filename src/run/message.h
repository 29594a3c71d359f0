#pragma once

#include <exception>
#include <string>

namespace slipstream {

/// what(), of PyTorch's errors without the backtrace.
std::string message_of(const std::exception& error);

}  // namespace slipstream
