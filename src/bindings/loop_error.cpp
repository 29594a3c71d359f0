#include "bindings/loop_error.h"

#include "bindings/gil.h"

namespace slipstream {

namespace py = pybind11;

bool ends_loop_at_once(const py::error_already_set& error) {
  const GilAcquire locked;
  if (!error.matches(PyExc_Exception)) return true;
  const py::object of_handler = py::module_::import("slipstream._signals").attr("is_of_handler");
  return of_handler(error.value(), find_traceback(error)).cast<bool>();
}

py::object find_traceback(const py::error_already_set& error) {
  return error.trace() ? error.trace() : py::object(py::none());
}

void add_remedy(const py::error_already_set& error, const py::object& values) {
  py::module_::import("slipstream._remedies").attr("add_remedy")(error.value(), values);
}

void throw_instead_of_stop(py::error_already_set& error, const std::string& who) {
  py::raise_from(error, PyExc_RuntimeError, (who + " raised StopIteration").c_str());
  throw py::error_already_set();
}

}  // namespace slipstream
