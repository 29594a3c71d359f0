#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

namespace slipstream {

/// Undoes the side effects of trial batches, which train nothing. When this object is destroyed,
/// the device has finished, `buffers` have the values that they had at construction, `restore` has
/// been called, and `parameters` have no gradients.
class TrialGuard {
 public:
  TrialGuard(std::span<const at::Tensor> buffers, std::span<const at::Tensor> parameters,
             std::function<void()> restore = {});
  ~TrialGuard();
  TrialGuard(const TrialGuard&) = delete;
  TrialGuard& operator=(const TrialGuard&) = delete;

 private:
  std::span<const at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_, kept_;
  std::function<void()> restore_;
};

}  // namespace slipstream
