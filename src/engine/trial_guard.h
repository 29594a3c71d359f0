#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

namespace slipstream {

/// Batches on trial, which train nothing: when this goes out of scope, for whatever reason, the
/// device has finished, `buffers` are as they were when it was made, `restore` was called, and
/// `parameters` have no gradients.
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
