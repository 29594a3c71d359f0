#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "slipstream/engine/optimizer.h"

namespace slipstream {

/// Removes the gradients of the parameters.
void drop_gradients(std::span<const at::Tensor> parameters);

/// Returns the gradients of the parameters that currently have one.
std::vector<at::Tensor> collect_gradients(std::span<const at::Tensor> parameters);

/// Throws Error for a parameter whose gradient is sparse.
void check_dense(std::span<const NamedTensor> parameters);

/// Scales gradients so that their total norm is at most `most`. The factor is most / (norm + 1e-6),
/// as in torch.nn.utils.clip_grad_norm_.
void clip_norm(std::vector<at::Tensor>& gradients, double most);

/// Returns a float32 scalar on the loss's device: 1 if the loss is not finite, otherwise 0.
at::Tensor is_not_finite(const at::Tensor& loss);

/// Scales losses so that gradients in fp16 do not underflow, and detects gradients that are not
/// finite. All of its work is on the device, so the host never waits.
class GradientScaler {
 public:
  /// If `scales` is false, losses are not scaled and gradients are only checked.
  GradientScaler(bool scales, at::Device device);

  /// Returns the factor for a loss; undefined if losses are not scaled.
  const at::Tensor& scale() const { return scale_; }
  /// Divides gradients by the scale and adapts the scale. Returns a float32 scalar that is 1 if a
  /// gradient is not finite or `not_finite` is 1, otherwise 0.
  at::Tensor unscale(std::vector<at::Tensor>& gradients, const at::Tensor& not_finite);
  void add_state(std::vector<NamedTensor>& all) const;

 private:
  at::Tensor scale_, growth_, one_;
};

}  // namespace slipstream
