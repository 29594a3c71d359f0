#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace slipstream {

/// Updates parameters from their gradients. It must never wait for the device.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Takes the parameters, which are on their device, and makes the state for them.
  virtual void bind(std::vector<at::Tensor> parameters) = 0;
  /// Enqueues one step on the current stream. Parameters without a gradient are left alone.
  virtual void step() = 0;
  /// The tensors of the state themselves, not copies, in a fixed order.
  virtual std::vector<at::Tensor> state() const = 0;
};

/// Options of sgd(). Numbers are finite and at least 0.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< needs a momentum above 0
};
/// Stochastic gradient descent in the form of torch.optim.SGD, in fused kernels: g' = g +
/// weight_decay w; v = momentum v + g'; w -= lr v, or with nesterov w -= lr (g' + momentum v).
/// Throws Refused for bad options.
std::shared_ptr<Optimizer> sgd(const SgdOptions& options);

/// Options of adamw(). Numbers are finite and at least 0, betas below 1.
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
};
/// AdamW in the form of torch.optim.AdamW, in fused kernels. Source: Loshchilov and Hutter,
/// "Decoupled weight decay regularization", ICLR 2019. Throws Refused for bad options.
std::shared_ptr<Optimizer> adamw(const AdamWOptions& options);

}  // namespace slipstream
