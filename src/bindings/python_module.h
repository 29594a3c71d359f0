#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/unsaved.h"

namespace slipstream {

/// Adds an object that C++ calls to a Python list, and returns a borrowed reference. If C++ owned
/// the object, Python's garbage collector would not see the reference, and could not free a model
/// or a loss that refers to its trainer. The list must live as long as the object is called. Needs
/// the GIL.
pybind11::handle kept_in(pybind11::handle list, const pybind11::object& object);

/// Presents a Python module as a LibTorch module: with a submodule for each of its submodules,
/// under the same name, that shares the parameters and buffers of its state_dict(). The mode,
/// training or evaluation, is only set in Python (PythonModes).
class PythonModule : public torch::nn::Module, public UnsavedState {
 public:
  /// `kept`: the list for objects that it calls. Needs the GIL, as does check_same().
  PythonModule(const pybind11::object& module, pybind11::handle kept);

  /// Saves buffers that are not persistent, and returns a function that restores them. Acquires the
  /// GIL.
  std::function<void()> keep_unsaved() const override;
  /// Acquires the GIL. Throws what check_same() throws.
  std::uint64_t digest_of_form() const override;

 protected:
  /// Throws Error, with the remedy, if Python's module has other parameters, buffers or modules
  /// than at the beginning, or tensors of another shape or type.
  void check_same() const;

 private:
  /// The table of a module's parameters, buffers or submodules by name.
  struct Table {
    pybind11::handle names;  ///< a dict
    std::string where, what;
    Py_ssize_t size;
  };
  /// An entry of a table: a module, a tensor, or None.
  struct Entry {
    std::size_t table;
    pybind11::handle name;
    pybind11::handle module;  ///< or None; a null handle: the entry is a tensor
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
  /// Throws Error if the tensor's size, dtype, device or requires_grad has changed.
  void check_form(const Entry& entry) const;

  pybind11::handle kept_;  ///< a list
  pybind11::handle module_;
  std::vector<std::pair<pybind11::handle, std::shared_ptr<torch::nn::Module>>> known_;
  std::vector<Table> tables_;
  std::vector<Entry> entries_;
  std::vector<std::pair<pybind11::handle, pybind11::handle>> passing_;  ///< table and name
};

/// Sets the modes, training or evaluation, of a Python module and its submodules, and restores them
/// at the end of its lifetime. Acquires the GIL.
class PythonModes {
 public:
  explicit PythonModes(pybind11::handle module);
  ~PythonModes();
  PythonModes(const PythonModes&) = delete;
  PythonModes& operator=(const PythonModes&) = delete;

  /// Sets the mode. If `trains` and `module` is already in training mode, its submodules keep their
  /// modes.
  void set(bool trains);
  /// Restores all modes, and then rethrows the first exception that a module's train() threw.
  void restore();

 private:
  pybind11::handle module_;
  std::optional<pybind11::list> before_;  ///< pairs of module and mode
};

}  // namespace slipstream
