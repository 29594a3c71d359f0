#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "bindings/gil.h"
#include "slipstream/core/error.h"

namespace slipstream {

/// A check of a loop has failed: its batches would not be those of a plain loop. Unlike what a
/// stage or a loader throws with one batch, it ends the loop.
class LoopCheckFailed : public Error {
 public:
  using Error::Error;
};

/// function(). Throws pybind11's exception where PyTorch's C++ code throws its own one for an error
/// of Python: it leaves the error to Python's thread state, where the next call would lose it.
template <typename Function>
decltype(auto) with_python_errors(Function&& function) {
  try {
    return function();
  } catch (python_error& error) {
    const GilAcquire locked;
    error.persist();
    error.restore();
    throw pybind11::error_already_set();
  }
}

/// Whether an error ends the loop as soon as it is raised, and not in place of its batch: Ctrl-C,
/// exits, and what the program's signal handlers raise. Any thread may call it.
bool ends_loop_at_once(const pybind11::error_already_set& error);

/// The traceback, or None for an error that no Python function raised. Needs Python's lock.
pybind11::object find_traceback(const pybind11::error_already_set& error);

/// Adds a note with the remedy where the code of the user refuses its input `values`, and the
/// remedy is known. Needs Python's lock.
void add_remedy(const pybind11::error_already_set& error, const pybind11::object& values);

/// Throws a RuntimeError in place of a StopIteration, which would end the caller's loop, as
/// generators do. `who` raised it.
[[noreturn]] void throw_instead_of_stop(pybind11::error_already_set& error, const std::string& who);

}  // namespace slipstream
