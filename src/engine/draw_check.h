#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>
#include <vector>

namespace slipstream {

/// Returns the devices whose default generators work on `device` may use: the CPU and `device`.
std::vector<c10::Device> drawing_devices(c10::Device device);
/// Returns the state of PyTorch's default generator for `device`, as a copy in host memory.
at::Tensor generator_state(c10::Device device);

/// A copy of the states of PyTorch's default generators (the CPU's and `device`'s), which can be
/// restored.
class GeneratorStates {
 public:
  explicit GeneratorStates(c10::Device device);
  void restore() const;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

/// Detects whether PyTorch's default generators (the CPU's and `device`'s) were used since
/// construction. A stage before training must not use them, because its random numbers would depend
/// on the plan.
class DrawCheck {
 public:
  explicit DrawCheck(c10::Device device);

  /// Throws Error, with the remedy, if a generator was used.
  void expect_none() const;

 private:
  std::vector<at::Tensor> states() const;

  c10::Device device_;
  std::vector<at::Tensor> before_;
};

}  // namespace slipstream
