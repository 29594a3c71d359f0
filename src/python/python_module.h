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
  /// than at the beginning, or tensors of another form.
  void check_same() const;

 private:
  /// The names that a module has for its parameters, its buffers or its modules.
  struct Table {
    SharedObject names;  ///< a dict
    std::string where, what;
    Py_ssize_t size;
  };
  /// What such a table has under a name: a module, a tensor, or None.
  struct Entry {
    std::size_t table;
    SharedObject name;
    SharedObject module;  ///< or None; nullptr: it is a tensor
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
  std::string name_of(const Entry& entry) const;
  /// Throws Error where the tensor has another size, dtype or device, or requires_grad.
  void check_form(const Entry& entry) const;

  SharedObject module_;
  std::vector<std::pair<pybind11::handle, std::shared_ptr<torch::nn::Module>>> known_;
  std::vector<Table> tables_;
  std::vector<Entry> entries_;
};

}  // namespace slipstream
