#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace slipstream {

/// An object of Python that any thread may let go of.
using SharedObject = std::shared_ptr<pybind11::object>;
/// Needs Python's lock.
SharedObject shared(pybind11::object object);

/// A module of Python as one of LibTorch: a module for each of its modules, under its name, with
/// the very parameters and buffers that its state_dict() has. Its mode becomes that of Python's.
class PythonModule : public torch::nn::Module {
 public:
  /// Needs Python's lock, as check_same() does.
  explicit PythonModule(pybind11::object module);

  void train(bool on = true) override;

 protected:
  /// Throws Error, with the remedy, where Python's module has other parameters, buffers or modules
  /// than at the beginning.
  void check_same() const;

 private:
  /// The names that a module has for its parameters, its buffers or its modules.
  struct Table {
    SharedObject names;  ///< a dict
    std::string where, what;
    Py_ssize_t size;
  };
  /// A tensor of such a table.
  struct Entry {
    std::size_t table;
    SharedObject name;
    at::Tensor tensor;
  };

  void mirror(pybind11::handle from, torch::nn::Module& to, const std::string& prefix);
  void add_tensors(pybind11::handle from, torch::nn::Module& to, const std::string& prefix);
  void watch(pybind11::handle from, const char* table, const std::string& prefix);

  SharedObject module_;
  std::vector<std::pair<pybind11::handle, std::shared_ptr<torch::nn::Module>>> known_;
  std::vector<Table> tables_;
  std::vector<Entry> entries_;
};

}  // namespace slipstream
