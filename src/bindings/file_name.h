#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>

namespace slipstream {

/// Converts the name of a file, or a message that contains one, to a str of Python. Bytes that are
/// not valid UTF-8 become surrogate escapes, which os.fsencode() converts back.
pybind11::str file_name(const std::string& name);

}  // namespace slipstream
