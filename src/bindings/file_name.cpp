#include "bindings/file_name.h"

namespace slipstream {

namespace py = pybind11;

py::str file_name(const std::string& name) {
  PyObject* const made =
      PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

}  // namespace slipstream
