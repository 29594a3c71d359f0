#pragma once

#include <exception>
#include <string>

namespace slipstream {

/// what(), of PyTorch's errors without the backtrace; plain_message() where memory ran out.
std::string describe_error(const std::exception& error);

}  // namespace slipstream
