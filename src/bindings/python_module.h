#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/unsaved.h"

namespace slipstream {

/// Lets a list of Python's keep an object that C++ calls: its garbage collector sees there what it
/// would not see here, where a model or a loss refers to its trainer. Needs Python's lock. The
/// list must live for as long as the object is called.
pybind11::handle kept_in(pybind11::handle list, const pybind11::object& object);

/// A module of Python as one of LibTorch: a module for each of its modules, under its name, with
/// the very parameters and buffers that its state_dict() has. Modes are Python's own (PythonModes).
class PythonModule : public torch::nn::Module, public UnsavedState {
 public:
  /// What it calls is in `kept`. Needs Python's lock, as check_same() does.
  PythonModule(const pybind11::object& module, pybind11::handle kept);

  /// Of buffers that are not persistent. Takes the lock.
  std::function<void()> keep_unsaved() const override;

 protected:
  /// Throws Error, with the remedy, where Python's module has other parameters, buffers or modules
  /// than at the beginning, or tensors of another form.
  void check_same() const;

 private:
  /// The names that a module has for its parameters, its buffers or its modules.
  struct Table {
    pybind11::handle names;  ///< a dict
    std::string where, what;
    Py_ssize_t size;
  };
  /// What such a table has under a name: a module, a tensor, or None.
  struct Entry {
    std::size_t table;
    pybind11::handle name;
    pybind11::handle module;  ///< or None; without a pointer: it is a tensor
    at::Tensor tensor = {};
    at::ScalarType type = at::kFloat;
    c10::Device device = at::kCPU;
    std::vector<std::int64_t> sizes = {};
    bool requires_grad = false;
  };

  void mirror(pybind11::handle from, torch::nn::Module& to, const std::string& prefix);
  void add_tensors(pybind11::handle from, torch::nn::Module& to, const std::string& prefix);
  void watch(pybind11::handle from, const char* table, const std::string& prefix);
  void keep(pybind11::handle name, const at::Tensor& tensor);
  void keep(pybind11::handle name, pybind11::handle module);
  std::string qualified_name(const Entry& entry) const;
  /// Throws Error where the tensor has another size, dtype or device, or requires_grad.
  void check_form(const Entry& entry) const;

  pybind11::handle kept_;  ///< a list
  pybind11::handle module_;
  std::vector<std::pair<pybind11::handle, std::shared_ptr<torch::nn::Module>>> known_;
  std::vector<Table> tables_;
  std::vector<Entry> entries_;
  std::vector<std::pair<pybind11::handle, pybind11::handle>> passing_;  ///< table and name
};

/// The modes, training or evaluation, of a module of Python and all modules in it, which are as
/// they were behind it. Takes Python's lock.
class PythonModes {
 public:
  explicit PythonModes(pybind11::handle module);
  ~PythonModes();
  PythonModes(const PythonModes&) = delete;
  PythonModes& operator=(const PythonModes&) = delete;

  /// In training all modules keep their modes where `module` is in training mode itself.
  void set(bool trains);
  /// What a module throws where it is told its mode is thrown when all is as it was.
  void restore();

 private:
  pybind11::handle module_;
  std::optional<pybind11::list> before_;  ///< of module and mode
};

}  // namespace slipstream
