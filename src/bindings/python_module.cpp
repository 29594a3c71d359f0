#include "bindings/python_module.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <utility>

#include "bindings/gil.h"
#include "bindings/lane_memory.h"
#include "core/fingerprint.h"
#include "engine/copy_values.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

constexpr const char* kParameters = "_parameters";
constexpr const char* kBuffers = "_buffers";
constexpr const char* kModules = "_modules";

}  // namespace

py::handle kept_in(py::handle list, const py::object& object) {
  if (PyList_Append(list.ptr(), object.ptr()) != 0) throw py::error_already_set();
  return object;
}

PythonModule::PythonModule(const py::object& module, py::handle kept)
    : torch::nn::Module(py::str(py::type::of(module).attr("__name__"))),
      kept_(kept),
      module_(kept_in(kept, module)) {
  mirror(module_, *this, "");
  known_.clear();
}

/// Copies the structure of `from` to `to`. Sets each mode before adding submodules, because train()
/// would pass it on to them.
void PythonModule::mirror(py::handle from, torch::nn::Module& to, const std::string& prefix) {
  to.train(from.attr("training").cast<bool>());
  add_tensors(from, to, prefix);
  watch(from, kModules, prefix);
  const py::dict modules = from.attr(kModules);
  for (const auto& [name, module] : modules) keep(name, module);
  for (const auto& [name, module] : modules) {
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
    if (value.is_none()) {
      keep(name, value);
      continue;
    }
    const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
    keep(name, tensor);
    to.register_parameter(name.cast<std::string>(), tensor, tensor.requires_grad());
  }
  const py::object passing = from.attr("_non_persistent_buffers_set");
  watch(from, kBuffers, prefix);
  for (const auto& [name, value] : py::dict(from.attr(kBuffers))) {
    if (passing.contains(name))
      passing_.emplace_back(tables_.back().names,
                            kept_in(kept_, py::reinterpret_borrow<py::object>(name)));
    if (value.is_none() || passing.contains(name)) continue;
    const at::Tensor& tensor = THPVariable_Unpack(value.ptr());
    keep(name, tensor);
    to.register_buffer(name.cast<std::string>(), tensor);
  }
}

void PythonModule::watch(py::handle from, const char* table, const std::string& prefix) {
  const py::dict names = from.attr(table);
  const Py_ssize_t size = PyDict_Size(names.ptr());
  tables_.push_back({kept_in(kept_, names), prefix, table + 1, size});
}

void PythonModule::keep(py::handle name, const at::Tensor& tensor) {
  entries_.push_back({tables_.size() - 1, kept_in(kept_, py::reinterpret_borrow<py::object>(name)),
                      py::handle(), tensor, tensor.scalar_type(), tensor.device(),
                      tensor.sizes().vec(), tensor.requires_grad()});
}

void PythonModule::keep(py::handle name, py::handle module) {
  entries_.push_back({tables_.size() - 1, kept_in(kept_, py::reinterpret_borrow<py::object>(name)),
                      kept_in(kept_, py::reinterpret_borrow<py::object>(module))});
}

void PythonModule::check_same() const {
  for (const Entry& entry : entries_) {
    const Table& table = tables_[entry.table];
    PyObject* const now = PyDict_GetItemWithError(table.names.ptr(), entry.name.ptr());
    const bool is_same = entry.module ? now == entry.module.ptr()
                                      : now != nullptr && THPVariable_Check(now) &&
                                            THPVariable_Unpack(now).is_same(entry.tensor);
    if (is_same) {
      if (entry.tensor.defined()) check_form(entry);
      continue;
    }
    PyErr_Clear();
    throw Error("the module replaced or removed '" + qualified_name(entry) + "', one of its " +
                table.what +
                ", after the trainer was made, so that it would be missing in checkpoints. " +
                (table.what == std::string(kModules + 1)
                     ? "Remedy: make all of them in __init__()"
                     : "Remedy: change it in place, such as self.NAME.copy_(values)"));
  }
  for (const Table& table : tables_)
    if (PyDict_Size(table.names.ptr()) != table.size)
      throw Error("the module got other " + table.what + " in '" + table.where +
                  "' after the trainer was made, which it would not train or save. Remedy: make "
                  "all of them in __init__()");
}

std::string PythonModule::qualified_name(const Entry& entry) const {
  return tables_[entry.table].where + entry.name.cast<std::string>();
}

void PythonModule::check_form(const Entry& entry) const {
  const at::Tensor& now = entry.tensor;
  const auto changed = [&](const std::string& what, const std::string& remedy) {
    throw Error("'" + qualified_name(entry) + "' got another " + what +
                " after the trainer was made, which it would not train or save. Remedy: " + remedy);
  };
  const std::string before = " before slipstream.Trainer(...) is made";
  if (now.sizes() != entry.sizes)
    changed(
        "size, " + c10::str(now.sizes()) + " in place of " + c10::str(at::IntArrayRef(entry.sizes)),
        "give it that size" + before);
  if (now.scalar_type() != entry.type)
    changed("dtype, " + c10::str(now.scalar_type()) + " in place of " + c10::str(entry.type),
            "convert the module" + before);
  if (now.device() != entry.device)
    changed("device, " + now.device().str() + " in place of " + entry.device.str(),
            "leave the module where the trainer moved it");
  if (now.requires_grad() != entry.requires_grad)
    changed(std::string("requires_grad, ") + (entry.requires_grad ? "False" : "True"),
            "set it" + before + ", and make another trainer for each phase");
}

std::uint64_t PythonModule::digest_of_form() const {
  const GilAcquire locked;
  check_same();
  std::uint64_t digest = 0;
  for (const py::handle each : module_.attr("modules")())
    digest = chain64(digest, each.attr("training").cast<bool>() ? 1 : 0);
  for (const auto& [table, name] : passing_) {
    PyObject* const now = PyDict_GetItemWithError(table.ptr(), name.ptr());
    if (now == nullptr || !THPVariable_Check(now)) continue;
    digest =
        chain64(digest, reinterpret_cast<std::uintptr_t>(THPVariable_Unpack(now).const_data_ptr()));
  }
  PyErr_Clear();
  return digest;
}

std::function<void()> PythonModule::keep_unsaved() const {
  struct Buffer {
    py::handle table, name;
    at::Tensor tensor, values;
    std::uint32_t version;
  };
  const GilAcquire locked;
  const at::NoGradGuard no_gradients;
  std::vector<Buffer> all;
  for (const auto& [table, name] : passing_) {
    PyObject* const now = PyDict_GetItemWithError(table.ptr(), name.ptr());
    if (now == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (now == nullptr) continue;
    if (!THPVariable_Check(now)) {
      all.push_back({table, name, {}, {}, 0});
      continue;
    }
    const at::Tensor& tensor = THPVariable_Unpack(now);
    all.push_back({table, name, tensor, tensor.clone(), tensor_version(tensor)});
  }
  return [all] {
    const GilAcquire relocked;
    const at::NoGradGuard none;
    for (const Buffer& each : all) {
      const py::object tensor = py::cast(each.tensor);  // None for an undefined one
      if (PyDict_SetItem(each.table.ptr(), each.name.ptr(), tensor.ptr()) != 0)
        throw py::error_already_set();
      if (each.tensor.defined() && tensor_version(each.tensor) != each.version)
        copy_values(each.tensor, each.values);
    }
  };
}

PythonModes::PythonModes(py::handle module) : module_(module) {
  const GilAcquire locked;
  py::list all;
  const py::object found = module.attr("named_modules")(py::arg("remove_duplicate") = false);
  for (const py::handle each : found) {
    const py::object one = each.cast<py::tuple>()[1];
    all.append(py::make_tuple(one, one.attr("training")));
  }
  before_ = std::move(all);
}

PythonModes::~PythonModes() {
  try {
    restore();
  } catch (const std::exception&) {
    // A destructor must not throw, and another exception is already being handled.
  }
}

void PythonModes::set(bool trains) {
  const GilAcquire locked;
  if (!trains || !module_.attr("training").cast<bool>()) module_.attr("train")(trains);
}

/// train() also sets the modes of all submodules. The list therefore contains a module after each
/// module that contains it, several times if there are several.
void PythonModes::restore() {
  if (!before_) return;
  const GilAcquire locked;
  const py::list before = *std::exchange(before_, std::nullopt);
  std::optional<py::error_already_set> raised;
  for (const py::handle each : before) {
    const auto [module, mode] = each.cast<std::pair<py::object, bool>>();
    if (module.attr("training").cast<bool>() == mode) continue;
    try {
      module.attr("train")(mode);
    } catch (const py::error_already_set& error) {
      if (!raised) raised.emplace(error);
    }
    module.attr("training") = mode;
  }
  if (raised) throw *raised;
}

}  // namespace slipstream
