#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>

namespace slipstream {

/// The name of a file, or a message with one, as Python has it: bytes that are not text become what
/// os.fsencode() takes.
pybind11::str file_name(const std::string& name);

}  // namespace slipstream
