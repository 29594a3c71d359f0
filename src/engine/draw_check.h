#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <utility>
#include <vector>

namespace slipstream {

/// Those whose default generators work on `device` may draw from: the CPU and `device`.
std::vector<c10::Device> drawing_devices(c10::Device device);
/// Of PyTorch's default generator for `device`, a copy in host memory.
at::Tensor generator_state(c10::Device device);

/// PyTorch's default generators (the CPU's and `device`'s) as they were when this was made.
class GeneratorStates {
 public:
  explicit GeneratorStates(c10::Device device);
  void restore() const;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

/// Sees whether PyTorch's default generators (the CPU's and `device`'s) were drawn from since it
/// was made. A stage ahead of training must not: its numbers would depend on the plan.
class DrawCheck {
 public:
  explicit DrawCheck(c10::Device device);

  /// Throws Error with the remedy if one was.
  void expect_none() const;

 private:
  std::vector<at::Tensor> states() const;

  c10::Device device_;
  std::vector<at::Tensor> before_;
};

}  // namespace slipstream
