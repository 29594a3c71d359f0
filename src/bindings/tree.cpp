#include "bindings/tree.h"

#include <pybind11/gil_safe_call_once.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>

#include "bindings/gil.h"
#include "bindings/loop_error.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

py::object imported(const char* module, const char* name) {
  return py::module_::import(module).attr(name);
}

bool is_data_class(py::handle value) {
  return py::hasattr(value, "__dataclass_fields__") && !PyType_Check(value.ptr());
}

bool is_mapping(py::handle value) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> mapping;
  const auto import = [] { return imported("collections.abc", "Mapping"); };
  return PyDict_Check(value.ptr()) ||
         py::isinstance(value, mapping.call_once_and_store_result(import).get_stored());
}

/// Limits the recursion, because a batch may contain itself.
class RecursionGuard {
 public:
  RecursionGuard() {
    if (Py_EnterRecursiveCall(" in a batch") != 0) throw py::error_already_set();
  }
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
};

/// Whether the object has one of the types that most objects other than tensors in a batch have.
bool is_plain(PyObject* value) {
  return value == Py_None || PyUnicode_Check(value) || PyLong_Check(value) ||
         PyFloat_Check(value) || PyBytes_Check(value);
}

py::list move_elements(py::handle values, c10::Device device) {
  py::list all;
  for (const py::handle value : values) all.append(moved(value, device));
  return all;
}

py::object moved_tuple(py::handle value, c10::Device device) {
  const py::list all = move_elements(value, device);
  if (PyTuple_CheckExact(value.ptr())) return py::tuple(all);
  if (py::hasattr(py::type::of(value), "n_sequence_fields")) return py::type::of(value)(all);
  // This is how named tuples create themselves. Their constructors may have other arguments.
  return imported("builtins", "tuple").attr("__new__")(py::type::of(value), all);
}

py::object moved_list(py::handle value, c10::Device device) {
  py::list all = move_elements(value, device);
  if (PyList_CheckExact(value.ptr())) return all;
  py::object changed = imported("copy", "copy")(value);
  changed[py::slice(0, py::len(value), 1)] = all;
  return changed;
}

py::object moved_mapping(py::handle value, c10::Device device) {
  py::dict items;
  for (const py::handle item : py::list(value.attr("items")())) {
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    items[pair[0]] = moved(pair[1], device);
  }
  if (PyDict_CheckExact(value.ptr())) return items;
  return imported("slipstream._trees", "mapping_with")(value, items);
}

py::object moved_data_class(py::handle value, c10::Device device) {
  py::object changed = imported("copy", "copy")(value);
  const py::object set = imported("builtins", "object").attr("__setattr__");
  for (const py::handle field : imported("dataclasses", "fields")(value)) {
    const py::object name = field.attr("name");
    if (py::hasattr(value, name)) set(changed, name, moved(py::getattr(value, name), device));
  }
  return changed;
}

py::object owned(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

/// Returns the index of `key` in a sequence of this size, or nothing.
std::optional<Py_ssize_t> index_in(Py_ssize_t size, py::handle key) {
  if (!PyLong_CheckExact(key.ptr())) return std::nullopt;
  Py_ssize_t index = PyLong_AsSsize_t(key.ptr());
  if (index == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return index;
}

py::object with_applied_in_dict(py::handle batch, py::handle function, py::handle from,
                                py::handle to) {
  PyObject* const value = PyDict_GetItemWithError(batch.ptr(), from.ptr());
  if (value == nullptr) {
    PyErr_Clear();
    return {};
  }
  const py::object result =
      call_python(function, py::make_tuple(py::reinterpret_borrow<py::object>(value)));
  py::object changed = owned(PyDict_Copy(batch.ptr()));
  if (PyDict_SetItem(changed.ptr(), to.ptr(), result.ptr()) != 0) throw py::error_already_set();
  return changed;
}

/// Whether the object has a method to(). A data field with that name is not callable.
bool can_move(py::handle value) {
  return py::hasattr(value, "to") && PyCallable_Check(value.attr("to").ptr()) != 0;
}

/// Adds a note with the position of `value`. Has no effect before Python 3.11.
void note_where(const py::error_already_set& error, py::handle value, const std::string& place) {
  const auto type = py::str(py::type::of(value).attr("__name__")).cast<std::string>();
  const std::string where =
      "in " + type + ".to('" + place +
      "'), which the loop calls for objects in a batch in the same way as for tensors";
  const py::object describe = imported("slipstream._signals", "describe_place");
  imported("slipstream._signals", "add_note")(
      error.value(), describe(error.value(), find_traceback(error), where));
}

/// Calls value.to(place, non_blocking=True). Returns null if that raises a TypeError.
py::object moved_without_waiting(py::handle value, const std::string& place) {
  try {
    const py::dict names(py::arg("non_blocking") = true);
    return call_python(py::object(value.attr("to")), py::make_tuple(place), names);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    return {};
  }
}

py::object moved_by_itself(py::handle value, c10::Device device) {
  const std::string place = device.str();
  try {
    py::object made = moved_without_waiting(value, place);
    // This call is outside of the catch block, where a thread cannot wait for the interpreter's
    // end.
    if (!made) made = call_python(py::object(value.attr("to")), py::make_tuple(place));
    return made;
  } catch (py::error_already_set& error) {
    note_where(error, value, place);
    if (!error.matches(PyExc_StopIteration)) throw;
    const auto type = py::str(py::type::of(value).attr("__name__")).cast<std::string>();
    throw_instead_of_stop(error, type + ".to('" + place + "')");
  }
}

}  // namespace

py::object moved(py::handle value, c10::Device device) {
  PyObject* const object = value.ptr();
  if (THPVariable_CheckExact(object)) {
    const at::Tensor& tensor = THPVariable_Unpack(object);
    if (tensor.device() == device) return py::reinterpret_borrow<py::object>(value);
    return py::cast(tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true));
  }
  if (is_plain(object)) return py::reinterpret_borrow<py::object>(value);
  const RecursionGuard deeper;
  // A subclass of tuple may have a method to() that must be called, such as PackedSequence.
  const bool is_container =
      PyTuple_CheckExact(object) || PyList_Check(object) || PyDict_Check(object);
  if (!is_container && !PyType_Check(object) && can_move(value))
    return moved_by_itself(value, device);
  if (PyTuple_Check(object)) return moved_tuple(value, device);
  if (PyList_Check(object)) return moved_list(value, device);
  if (is_mapping(value)) return moved_mapping(value, device);
  if (is_data_class(value)) return moved_data_class(value, device);
  return py::reinterpret_borrow<py::object>(value);
}

py::object with_applied(py::handle batch, py::handle function, py::handle from, py::handle to) {
  if (PyDict_CheckExact(batch.ptr())) return with_applied_in_dict(batch, function, from, to);
  const bool is_list = PyList_CheckExact(batch.ptr());
  if (!is_list && !PyTuple_CheckExact(batch.ptr())) return {};
  const Py_ssize_t size = Py_SIZE(batch.ptr());
  const auto source = index_in(size, from), target = index_in(size, to);
  if (!source || !target) return {};
  py::object result = call_python(
      function, py::make_tuple(py::handle(PySequence_Fast_GET_ITEM(batch.ptr(), *source))));
  ensure(Py_SIZE(batch.ptr()) == size, "a stage must not change the length of its batch");
  py::object changed = owned(is_list ? PyList_New(size) : PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const value =
        i == *target ? result.release().ptr() : Py_NewRef(PySequence_Fast_GET_ITEM(batch.ptr(), i));
    is_list ? PyList_SET_ITEM(changed.ptr(), i, value) : PyTuple_SET_ITEM(changed.ptr(), i, value);
  }
  return changed;
}

void for_each_leaf(py::handle value, const std::function<void(const at::Tensor&)>& tensor,
                   const std::function<void(py::handle)>& other) {
  PyObject* const object = value.ptr();
  if (THPVariable_Check(object)) return tensor(THPVariable_Unpack(object));
  if (is_plain(object)) return;
  const RecursionGuard deeper;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (const py::handle each : value) for_each_leaf(each, tensor, other);
  } else if (is_mapping(value)) {
    for (const py::handle each : py::list(value.attr("values")()))
      for_each_leaf(each, tensor, other);
  } else if (is_data_class(value)) {
    for (const py::handle field : imported("dataclasses", "fields")(value))
      if (py::hasattr(value, field.attr("name")))
        for_each_leaf(py::object(py::getattr(value, field.attr("name"))), tensor, other);
  } else if (other) {
    other(value);
  }
}

}  // namespace slipstream
