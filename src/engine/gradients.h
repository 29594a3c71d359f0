#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "slipstream/engine/optimizer.h"

namespace slipstream {

/// Leaves the parameters without gradients.
void drop_gradients(std::span<const at::Tensor> parameters);

/// The gradients of those parameters that have one now.
std::vector<at::Tensor> collect_gradients(std::span<const at::Tensor> parameters);

/// Throws Error for a parameter whose gradient is sparse.
void check_dense(std::span<const NamedTensor> parameters);

/// Scales gradients whose norm, of all together, is above `most` down to it. As
/// torch.nn.utils.clip_grad_norm_ does, by most / (norm + 1e-6).
void clip_norm(std::vector<at::Tensor>& gradients, double most);

/// A float32 scalar on the loss's device: 1 where it is not finite, else 0.
at::Tensor is_not_finite(const at::Tensor& loss);

/// Scales losses so that gradients in fp16 do not vanish, and finds gradients that are not finite.
/// All of it is on the device.
class GradientScaler {
 public:
  /// `scales`: whether losses are scaled; otherwise gradients are only looked at.
  GradientScaler(bool scales, at::Device device);

  /// By which a loss is to be multiplied; undefined where losses are not scaled.
  const at::Tensor& scale() const { return scale_; }
  /// Divides gradients by the scale, and returns a float32 scalar that is 1 where one of them is
  /// not finite or `not_finite` is 1, and adapts the scale.
  at::Tensor unscale(std::vector<at::Tensor>& gradients, const at::Tensor& not_finite);
  void add_state(std::vector<NamedTensor>& all) const;

 private:
  at::Tensor scale_, growth_, one_;
};

}  // namespace slipstream
