#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace slipstream {

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
