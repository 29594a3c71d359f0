#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace slipstream {

/// Updates parameters from their gradients, all in a few fused kernels; never waits for the device.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Takes the parameters (on their device) and makes the state for them.
  virtual void bind(std::vector<at::Tensor> parameters) = 0;
  /// One step on the current stream. Parameters without a gradient are left alone.
  virtual void step() = 0;
  /// The state's tensors, in a fixed order, as they are (not copies).
  virtual std::vector<at::Tensor> state() const = 0;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
/// v = momentum v + g + weight_decay w; w -= lr v (torch.optim.SGD's form).
std::shared_ptr<Optimizer> sgd(const SgdOptions& options);

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};
/// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019 (torch.optim.AdamW's form).
std::shared_ptr<Optimizer> adamw(const AdamWOptions& options);

}  // namespace slipstream
