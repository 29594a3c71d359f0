#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/engine/stage.h"

namespace slipstream {

/// A module that was saved to a file by Python. Only to(device) may move it.
class Imported : public torch::nn::Module {
 public:
  /// Throws Refused if the file does not exist, or if there are no inputs or no outputs.
  Imported(const std::filesystem::path& file, std::vector<std::string> inputs,
           std::vector<std::string> outputs);

  /// Runs the module on the input fields of `batch` and sets the output fields. Throws Error with
  /// the file's name.
  void run(Batch& batch);

  using torch::nn::Module::to;
  void to(c10::Device device, bool non_blocking) override = 0;

 protected:
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) = 0;

  std::string file_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
};

FrozenStage make_stage(std::shared_ptr<Imported> module);

/// Returns a tensor's dtype and shape, such as "uint8[8, 3, 64, 64]".
std::string describe_tensor(const at::Tensor& tensor);
/// Returns what(), for PyTorch's errors without the backtrace.
std::string error_text(const std::exception& error);
/// Returns the first line of error_text(), without PyTorch's guesses about damaged checkpoints.
std::string failure_reason(const std::exception& error);

}  // namespace slipstream
