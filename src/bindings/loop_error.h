#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "bindings/gil.h"
#include "slipstream/core/error.h"

namespace slipstream {

/// Reports that a check of a loop failed, so its batches would differ from those of a plain loop.
/// It ends the loop, whereas an exception of a stage or a loader takes the place of one batch.
class LoopCheckFailed : public Error {
 public:
  using Error::Error;
};

/// Calls function(). If PyTorch's C++ code throws python_error, converts it to pybind11's
/// exception: python_error leaves the error in Python's thread state, where the next call would
/// lose it.
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

/// Whether an error ends the loop as soon as it is raised, instead of taking the place of its
/// batch: Ctrl-C, SystemExit, and exceptions of the program's signal handlers. Any thread may call
/// it.
bool ends_loop_at_once(const pybind11::error_already_set& error);

/// Returns the traceback, or None if no Python function raised the error. Needs the GIL.
pybind11::object find_traceback(const pybind11::error_already_set& error);

/// Adds a note with the remedy if the user's code rejects its input `values` and the remedy is
/// known. Needs the GIL.
void add_remedy(const pybind11::error_already_set& error, const pybind11::object& values);

/// Throws a RuntimeError instead of a StopIteration that `who` raised, as generators do: the
/// StopIteration would silently end the caller's loop.
[[noreturn]] void throw_instead_of_stop(pybind11::error_already_set& error, const std::string& who);

}  // namespace slipstream
