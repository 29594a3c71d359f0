#include "slipstream/train/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

void require(bool ok, const std::string& message) {
  if (!ok) throw Refused(message);
}

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

/// Parameters that have a gradient now, and their indices.
struct Active {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::size_t> indices;

  explicit Active(const std::vector<at::Tensor>& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].grad().defined()) continue;
      parameters.push_back(all[i]);
      gradients.push_back(all[i].grad());
      indices.push_back(i);
    }
  }

  std::vector<at::Tensor> pick(const std::vector<at::Tensor>& from) const {
    std::vector<at::Tensor> picked;
    for (std::size_t i : indices) picked.push_back(from[i]);
    return picked;
  }
};

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {
    require(is_amount(options.lr) && is_amount(options.momentum) && is_amount(options.weight_decay),
            "sgd: lr, momentum and weight_decay must be finite and not negative");
    require(!options.nesterov || options.momentum > 0, "sgd: nesterov needs a momentum above 0");
  }

  void bind(std::vector<at::Tensor> parameters) override {
    parameters_ = std::move(parameters);
    momenta_.clear();
    if (options_.momentum == 0) return;
    for (const at::Tensor& parameter : parameters_) momenta_.push_back(at::zeros_like(parameter));
  }

  void step() override {
    const Active active(parameters_);
    if (active.parameters.empty()) return;
    // Momenta start at zero, so the first step needs no case of its own without dampening.
    at::_fused_sgd_(active.parameters, active.gradients,
                    momenta_.empty() ? std::vector<at::Tensor>{} : active.pick(momenta_),
                    options_.weight_decay, options_.momentum, options_.lr, /*dampening=*/0,
                    options_.nesterov, /*maximize=*/false, /*is_first_step=*/false);
  }

  std::vector<at::Tensor> state() const override { return momenta_; }

 private:
  SgdOptions options_;
  std::vector<at::Tensor> parameters_, momenta_;
};

class AdamW final : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {
    require(is_amount(options.lr) && is_amount(options.weight_decay) && is_amount(options.eps),
            "adamw: lr, weight_decay and eps must be finite and not negative");
    require(options.betas[0] >= 0 && options.betas[0] < 1 && options.betas[1] >= 0 &&
                options.betas[1] < 1,
            "adamw: betas must be at least 0 and below 1");
  }

  void bind(std::vector<at::Tensor> parameters) override {
    parameters_ = std::move(parameters);
    means_.clear();
    squares_.clear();
    steps_.clear();
    for (const at::Tensor& parameter : parameters_) {
      means_.push_back(at::zeros_like(parameter));
      squares_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
    }
  }

  void step() override {
    const Active active(parameters_);
    if (active.parameters.empty()) return;
    std::vector<at::Tensor> steps = active.pick(steps_);
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(active.parameters, active.gradients, active.pick(means_),
                      active.pick(squares_), {}, steps, options_.lr, options_.betas[0],
                      options_.betas[1], options_.weight_decay, options_.eps, /*amsgrad=*/false,
                      /*maximize=*/false);
  }

  std::vector<at::Tensor> state() const override {
    std::vector<at::Tensor> all = means_;
    all.insert(all.end(), squares_.begin(), squares_.end());
    all.insert(all.end(), steps_.begin(), steps_.end());
    return all;
  }

 private:
  AdamWOptions options_;
  std::vector<at::Tensor> parameters_, means_, squares_, steps_;
};

}  // namespace

std::shared_ptr<Optimizer> sgd(const SgdOptions& options) { return std::make_shared<Sgd>(options); }

std::shared_ptr<Optimizer> adamw(const AdamWOptions& options) {
  return std::make_shared<AdamW>(options);
}

}  // namespace slipstream
