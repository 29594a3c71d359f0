#include "python/tree.h"

#include <torch/csrc/autograd/python_variable.h>

namespace slipstream {
namespace {

namespace py = pybind11;
using Change = std::function<at::Tensor(const at::Tensor&)>;

py::list list_with(py::handle values, const Change& change) {
  py::list changed;
  for (const py::handle value : values) changed.append(with_tensors(value, change));
  return changed;
}

py::object tuple_with(py::handle value, const Change& change) {
  const py::list changed = list_with(value, change);
  if (PyTuple_CheckExact(value.ptr())) return py::tuple(changed);
  const py::type type = py::type::of(value);
  if (py::hasattr(value, "_make")) return type.attr("_make")(changed);
  return type(changed);
}

py::object mapping_with(py::handle value, const Change& change) {
  py::object changed = py::module_::import("copy").attr("copy")(value);
  for (const py::handle item : py::list(value.attr("items")())) {
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    changed[pair[0]] = with_tensors(pair[1], change);
  }
  return changed;
}

py::object data_class_with(py::handle value, const Change& change) {
  py::dict changed;
  for (const py::handle field : value.attr("__dataclass_fields__")) {
    const py::object old = py::getattr(value, field);
    changed[field] = with_tensors(old, change);
  }
  return py::module_::import("dataclasses").attr("replace")(value, **changed);
}

bool is_data_class(py::handle value) {
  return py::hasattr(value, "__dataclass_fields__") && !PyType_Check(value.ptr());
}

bool is_mapping(py::handle value) {
  static const py::handle mapping =
      py::object(py::module_::import("collections.abc").attr("Mapping")).release();
  return py::isinstance(value, mapping);
}

/// Most of what a batch holds beside tensors.
bool is_leaf(PyObject* value) {
  return value == Py_None || PyUnicode_Check(value) || PyLong_Check(value) ||
         PyFloat_Check(value) || PyBytes_Check(value);
}

}  // namespace

py::object with_tensors(py::handle value, const Change& change) {
  PyObject* const object = value.ptr();
  if (THPVariable_Check(object)) return py::cast(change(THPVariable_Unpack(object)));
  if (is_leaf(object)) return py::reinterpret_borrow<py::object>(value);
  if (PyTuple_Check(object)) return tuple_with(value, change);
  if (PyList_Check(object)) return list_with(value, change);
  if (PyDict_Check(object) || is_mapping(value)) return mapping_with(value, change);
  if (is_data_class(value)) return data_class_with(value, change);
  return py::reinterpret_borrow<py::object>(value);
}

void for_each_tensor(py::handle value, const std::function<void(const at::Tensor&)>& look) {
  PyObject* const object = value.ptr();
  if (THPVariable_Check(object)) {
    look(THPVariable_Unpack(object));
  } else if (is_leaf(object)) {
    return;
  } else if (PyTuple_Check(object) || PyList_Check(object)) {
    for (const py::handle each : value) for_each_tensor(each, look);
  } else if (PyDict_Check(object) || is_mapping(value)) {
    for (const py::handle each : py::list(value.attr("values")())) for_each_tensor(each, look);
  } else if (is_data_class(value)) {
    for (const py::handle field : value.attr("__dataclass_fields__"))
      for_each_tensor(py::object(py::getattr(value, field)), look);
  }
}

}  // namespace slipstream
