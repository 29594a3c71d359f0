#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "slipstream/engine/stage.h"

namespace slipstream {

/// A module that Python wrote into a file. to(device) alone moves it.
class Imported : public torch::nn::Module {
 public:
  /// Throws Refused where there is no file, no input or no output.
  Imported(const std::filesystem::path& file, std::vector<std::string> inputs,
           std::vector<std::string> outputs);

  /// Reads the inputs and sets the outputs. Throws Error, naming the file.
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

/// "uint8[8, 3, 64, 64]".
std::string describe_tensor(const at::Tensor& tensor);
/// what(), of PyTorch's errors without the backtrace.
std::string error_text(const std::exception& error);
/// The first line of error_text(), without what PyTorch guesses of damaged checkpoints.
std::string failure_reason(const std::exception& error);

}  // namespace slipstream
