#include "engine/autograd_thread.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cuda/cuda.h"

namespace slipstream {
namespace {

struct Binding : torch::autograd::Function<Binding> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    bind_this_thread(gradients.front().device());
    return gradients;
  }
};

}  // namespace

void bind_this_thread(c10::Device device) {
  thread_local c10::DeviceIndex bound = -1;
  if (bound == device.index()) return;
  const cuda::DeviceGuard previous(device.index());
  cuda::check_cuda(cudaSetDevice(device.index()));
  bound = device.index();
}

void bind_autograd_thread(c10::Device device) {
  const at::AutoGradMode gradients(true);
  const at::Tensor leaf =
      at::ones({1}, at::dtype(at::kFloat).device(device)).set_requires_grad(true);
  Binding::apply(leaf).backward();
}

}  // namespace slipstream
