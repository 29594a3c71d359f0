#include "python/python_module.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

constexpr const char* kParameters = "_parameters";
constexpr const char* kBuffers = "_buffers";
constexpr const char* kModules = "_modules";

}  // namespace

SharedObject shared(py::object object) {
  return {new py::object(std::move(object)), [](py::object* kept) {
            const py::gil_scoped_acquire locked;
            delete kept;
          }};
}

PythonModule::PythonModule(py::object module)
    : torch::nn::Module(py::str(py::type::of(module).attr("__name__"))),
      module_(shared(std::move(module))) {
  mirror(*module_, *this, "");
  known_.clear();
}

/// A module of `to` has the mode of Python's, before it has modules to pass it on to.
void PythonModule::mirror(py::handle from, torch::nn::Module& to, const std::string& prefix) {
  to.torch::nn::Module::train(from.attr("training").cast<bool>());
  add_tensors(from, to, prefix);
  watch(from, kModules, prefix);
  for (const auto& [name, module] : py::dict(from.attr(kModules))) {
    if (module.is_none()) continue;
    const auto key = name.cast<std::string>();
    const auto same =
        std::find_if(known_.begin(), known_.end(),
                     [&, of = module](const auto& each) { return each.first.is(of); });
    if (same != known_.end()) {
      to.register_module(key, same->second);
      continue;
    }
    const auto made = std::make_shared<torch::nn::Module>(key);
    mirror(module, *made, prefix + key + ".");
    known_.emplace_back(module, made);
    to.register_module(key, made);
  }
}

void PythonModule::add_tensors(py::handle from, torch::nn::Module& to, const std::string& prefix) {
  watch(from, kParameters, prefix);
  for (const auto& [name, value] : py::dict(from.attr(kParameters))) {
    if (value.is_none()) continue;
    const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
    entries_.push_back(
        {tables_.size() - 1, shared(py::reinterpret_borrow<py::object>(name)), tensor});
    to.register_parameter(name.cast<std::string>(), tensor, tensor.requires_grad());
  }
  const py::object passing = from.attr("_non_persistent_buffers_set");
  watch(from, kBuffers, prefix);
  for (const auto& [name, value] : py::dict(from.attr(kBuffers))) {
    if (value.is_none() || passing.contains(name)) continue;
    const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
    entries_.push_back(
        {tables_.size() - 1, shared(py::reinterpret_borrow<py::object>(name)), tensor});
    to.register_buffer(name.cast<std::string>(), tensor);
  }
}

void PythonModule::watch(py::handle from, const char* table, const std::string& prefix) {
  py::dict names = from.attr(table);
  const Py_ssize_t size = PyDict_Size(names.ptr());
  tables_.push_back({shared(std::move(names)), prefix, table + 1, size});
}

void PythonModule::train(bool on) {
  torch::nn::Module::train(on);
  const py::gil_scoped_acquire locked;
  module_->attr("train")(on);
}

void PythonModule::check_same() const {
  for (const Entry& entry : entries_) {
    const Table& table = tables_[entry.table];
    PyObject* const now = PyDict_GetItemWithError(table.names->ptr(), entry.name->ptr());
    if (now != nullptr && THPVariable_Check(now) && THPVariable_Unpack(now).is_same(entry.tensor))
      continue;
    PyErr_Clear();
    throw Error("the module replaced or removed '" + table.where + entry.name->cast<std::string>() +
                "', one of its " + table.what +
                ", after the trainer was made, so that it would be missing in checkpoints. Remedy: "
                "change it in place, such as self.NAME.copy_(values)");
  }
  for (const Table& table : tables_)
    if (PyDict_Size(table.names->ptr()) != table.size)
      throw Error("the module got other " + table.what + " in '" + table.where +
                  "' after the trainer was made, which it would not train or save. Remedy: make "
                  "all of them in __init__()");
}

}  // namespace slipstream
