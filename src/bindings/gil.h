#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <torch/csrc/utils/pybind.h>
#include <optional>

namespace slipstream {

/// Blocks the thread until the process ends.
[[noreturn]] void wait_for_exit() noexcept;

/// Calls function(), which calls Python or acquires the GIL. When the interpreter ends, Python
/// before 3.14 terminates other threads that request the GIL by unwinding their stacks. This aborts
/// the process if a destructor or a noexcept function is on the stack. The thread therefore blocks
/// until the process ends, as Python 3.14 and later versions do.
template <typename Function>
decltype(auto) in_interpreter(Function&& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    wait_for_exit();
  }
}

/// Calls function(*arguments, **names) through in_interpreter(), so that unwinding stops before it
/// destroys C++ objects that need the GIL. `arguments` and `names` may be null.
inline pybind11::object call_python(pybind11::handle function, pybind11::handle arguments,
                                    pybind11::handle names = {}) {
  PyObject* const result = in_interpreter([&] {
    return arguments ? PyObject_Call(function.ptr(), arguments.ptr(), names.ptr())
                     : PyObject_CallNoArgs(function.ptr());
  });
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

/// Holds the GIL during its lifetime. If the interpreter ends meanwhile, the thread blocks (see
/// above).
class GilAcquire {
 public:
  GilAcquire() {
    in_interpreter([this] { held_.emplace(); });
  }

 private:
  std::optional<pybind11::gil_scoped_acquire> held_;
};

/// Releases the GIL during its lifetime.
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
