#include "bindings/native_classes.h"

#include <string>

namespace slipstream {
namespace {

namespace py = pybind11;
using py::detail::values_and_holders;

PyObject* refuse_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError,
               "%s.__new__() alone does not create a usable object: call the class, which also "
               "calls __init__()",
               type->tp_name);
  return nullptr;
}

/// Replaces the inherited __new__(), whose message names another __new__() as the remedy.
py::object new_alone() {
  return py::cpp_function([](const py::type& type, const py::args&, const py::kwargs&) {
    refuse_new(reinterpret_cast<PyTypeObject*>(type.ptr()), nullptr, nullptr);
    throw py::error_already_set();
  });
}

bool is_complete(PyObject* self) {
  values_and_holders parts(self);
  for (const auto& part : parts)
    if (!part.holder_constructed() && !parts.is_redundant_value_and_holder(part)) return false;
  return true;
}

/// Creates an object as pybind11's metaclass does, but not with tp_new of `type`, which now
/// refuses.
PyObject* construct(PyObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* const self = py::detail::make_new_instance(reinterpret_cast<PyTypeObject*>(type));
  if (self == nullptr) return nullptr;
  if (Py_TYPE(self)->tp_init(self, args, kwargs) == 0) {
    if (is_complete(self)) return self;
    PyErr_Format(PyExc_TypeError, "%s.__init__() must call the __init__() of its base class",
                 Py_TYPE(self)->tp_name);
  }
  Py_DECREF(self);
  return nullptr;
}

/// Derives a metaclass. pybind11's own must not change, because other extension modules share it.
py::object make_metaclass(py::handle base) {
  const py::handle type(reinterpret_cast<PyObject*>(&PyType_Type));
  py::object made = type("NativeType", py::make_tuple(base), py::dict());
  reinterpret_cast<PyTypeObject*>(made.ptr())->tp_call = &construct;
  return made;
}

}  // namespace

void refuse_new_alone(py::module_& module) {
  const py::handle theirs(
      reinterpret_cast<PyObject*>(py::detail::get_internals().default_metaclass));
  const py::object ours = make_metaclass(theirs), refuses = new_alone();
  for (const auto& [name, value] : py::dict(module.attr("__dict__"))) {
    if (!py::type::handle_of(value).is(theirs)) continue;
    PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
    type->tp_new = &refuse_new;
    // setattr() would also change tp_new, which construct() needs.
    if (PyDict_SetItemString(type->tp_dict, "__new__", refuses.ptr()) != 0)
      throw py::error_already_set();
    Py_SET_TYPE(value.ptr(), reinterpret_cast<PyTypeObject*>(py::object(ours).release().ptr()));
    theirs.dec_ref();
    PyType_Modified(type);
  }
}

}  // namespace slipstream
