#include "engine/trial_guard.h"

#include <ATen/core/grad_mode.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <utility>

#include "cuda/cuda.h"
#include "cuda/teardown.h"
#include "engine/copy_values.h"
#include "engine/gradients.h"

namespace slipstream {

TrialGuard::TrialGuard(std::span<const at::Tensor> buffers, std::span<const at::Tensor> parameters,
                       std::function<void()> restore)
    : parameters_(parameters),
      buffers_(buffers.begin(), buffers.end()),
      restore_(std::move(restore)) {
  const at::NoGradGuard no_gradients;
  for (const at::Tensor& buffer : buffers_) kept_.push_back(buffer.clone());
}

TrialGuard::~TrialGuard() {
  drop_gradients(parameters_);
  const at::NoGradGuard no_gradients;
  try {
    for (std::size_t i = 0; i < buffers_.size(); ++i) copy_values(buffers_[i], kept_[i]);
    if (restore_) restore_();
  } catch (const std::exception&) {
    // Happens only if the device is lost, which the next use of the device reports.
  }
  // The caller's stream is not ordered after the stream of the trial, so the whole device is
  // synchronized.
  if (parameters_.empty() || !parameters_.front().is_cuda()) return;
  const cuda::DeviceGuard device(parameters_.front().get_device(), std::nothrow);
  cuda::ignore_failure(cudaDeviceSynchronize());
}

}  // namespace slipstream
