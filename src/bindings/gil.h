#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <torch/csrc/utils/pybind.h>
#include <optional>

namespace slipstream {

/// Waits until the process ends.
[[noreturn]] void wait_for_exit() noexcept;

/// function(), which calls Python or takes its lock. When the interpreter ends, Python before 3.14
/// exits other threads that want its lock by unwinding their stacks. That aborts the process where
/// a destructor or a function that throws nothing is on the stack, so the thread waits for the
/// process's end instead, as from Python 3.14 on.
template <typename Function>
decltype(auto) in_interpreter(Function&& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    wait_for_exit();
  }
}

/// function(*arguments, **names), where in_interpreter() is the first C++ on the stack behind
/// Python's own: what unwinding would destroy without the lock stays. Both may be null.
inline pybind11::object call_python(pybind11::handle function, pybind11::handle arguments,
                                    pybind11::handle names = {}) {
  PyObject* const result = in_interpreter([&] {
    return arguments ? PyObject_Call(function.ptr(), arguments.ptr(), names.ptr())
                     : PyObject_CallNoArgs(function.ptr());
  });
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

/// Holds Python's lock, also on threads that the interpreter's end surprises.
class GilAcquire {
 public:
  GilAcquire() {
    in_interpreter([this] { held_.emplace(); });
  }

 private:
  std::optional<pybind11::gil_scoped_acquire> held_;
};

/// Releases Python's lock while it lives.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    in_interpreter([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace slipstream
