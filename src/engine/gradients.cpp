#include "engine/gradients.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

// The defaults of torch.amp.GradScaler.
constexpr double kFirstScale = 65536;
constexpr double kScaleGrowth = 2;
constexpr double kScaleBackoff = 0.5;
constexpr std::int64_t kScaleGrowthInterval = 2000;

constexpr double kClipEpsilon = 1e-6;

}  // namespace

void drop_gradients(std::span<const at::Tensor> parameters) {
  for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
}

std::vector<at::Tensor> collect_gradients(std::span<const at::Tensor> parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  return gradients;
}

void check_dense(std::span<const NamedTensor> parameters) {
  for (const auto& [name, tensor] : parameters)
    if (tensor.grad().defined() && tensor.grad().layout() != at::kStrided)
      throw Error(
          "the gradient of '" + name +
          "' is sparse, which the optimizers do not support: create its layer without sparse=True");
}

void clip_norm(std::vector<at::Tensor>& gradients, double most) {
  if (gradients.empty()) return;
  // The factor is computed on the device and is 1 for small gradients, because reading the norm to
  // decide would make the host wait.
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
  at::_foreach_mul_(gradients, norm.add(kClipEpsilon).reciprocal_().mul_(most).clamp_max_(1));
}

GradientScaler::GradientScaler(bool scales, at::Device device)
    : one_(at::ones({}, at::TensorOptions(at::kFloat).device(device))) {
  if (!scales) return;
  scale_ = at::full({}, kFirstScale, one_.options());
  growth_ = at::zeros({}, one_.options().dtype(at::kInt));
}

at::Tensor is_not_finite(const at::Tensor& loss) {
  return loss.detach().isfinite().logical_not_().to(at::kFloat);
}

at::Tensor GradientScaler::unscale(std::vector<at::Tensor>& gradients,
                                   const at::Tensor& not_finite) {
  at::Tensor found = at::zeros({}, one_.options());
  const at::Tensor inverse =
      // The reciprocal is computed in double, as torch.amp.GradScaler does, so that results have
      // the same bits.
      scale_.defined() ? scale_.to(at::kDouble).reciprocal_().to(at::kFloat) : one_;
  if (!gradients.empty()) at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  found = at::maximum(found, not_finite);
  if (scale_.defined())
    at::_amp_update_scale_(scale_, growth_, found, kScaleGrowth, kScaleBackoff,
                           kScaleGrowthInterval);
  return found;
}

void GradientScaler::add_state(std::vector<NamedTensor>& all) const {
  if (!scale_.defined()) return;
  all.push_back({"loss_scale", scale_});
  all.push_back({"loss_scale_growth", growth_});
}

}  // namespace slipstream
