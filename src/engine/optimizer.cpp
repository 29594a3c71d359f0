#include "slipstream/engine/optimizer.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

void require(bool ok, const std::string& message) {
  if (!ok) throw Refused(message);
}

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

/// The parameters of one group that currently have a gradient, and their indices.
struct Active {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::size_t> indices;

  Active(const std::vector<NamedTensor>& all, const std::vector<std::size_t>& group) {
    for (const std::size_t i : group) {
      const at::Tensor& parameter = all[i].tensor;
      if (!parameter.grad().defined()) continue;
      parameters.push_back(parameter);
      gradients.push_back(parameter.grad());
      indices.push_back(i);
    }
  }

  std::vector<at::Tensor> pick(const std::vector<at::Tensor>& from) const {
    std::vector<at::Tensor> picked;
    if (from.empty()) return picked;
    for (const std::size_t i : indices) picked.push_back(from[i]);
    return picked;
  }
};

/// Parameters with one learning rate and one weight decay.
struct Group {
  std::vector<std::size_t> indices;
  double lr;
  double weight_decay;
  at::Tensor written_lr = {};  ///< float32 scalar on the parameters' device: what write_lr() wrote
  std::optional<float> last_written = std::nullopt;

  /// Returns the learning rate of an update. It is rounded to float32, because the learning rate in
  /// `written_lr` is, and plans with and without CUDA graphs must compute the same bits.
  float rounded_lr(double factor) const { return static_cast<float>(lr * factor); }
};

/// Writes the learning rates that have changed.
void write_rates(std::vector<Group>& groups, double factor) {
  for (Group& group : groups) {
    const float rate = group.rounded_lr(factor);
    if (group.last_written == rate) continue;
    group.written_lr.fill_(rate);
    group.last_written = rate;
  }
}

void check_groups(const std::string& who, const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups)
    require(group.takes && is_amount(group.lr_factor) && is_amount(group.weight_decay.value_or(0)),
            who +
                ": a group needs a function, and an lr_factor and a weight_decay that are finite "
                "and not negative");
}

/// Returns the groups that have parameters, followed by the group of all other parameters.
std::vector<Group> grouped(const std::vector<NamedTensor>& parameters, double lr,
                           double weight_decay, const std::vector<ParameterGroup>& declared) {
  std::vector<Group> groups;
  for (const ParameterGroup& each : declared)
    groups.push_back({{}, lr * each.lr_factor, each.weight_decay.value_or(weight_decay)});
  groups.push_back({{}, lr, weight_decay});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto taken = std::find_if(declared.begin(), declared.end(),
                                    [&](const auto& each) { return each.takes(parameters[i]); });
    groups[static_cast<std::size_t>(taken - declared.begin())].indices.push_back(i);
  }
  std::erase_if(groups, [](const Group& group) { return group.indices.empty(); });
  for (Group& group : groups)
    group.written_lr =
        at::zeros({}, parameters[group.indices.front()].tensor.options().dtype(at::kFloat));
  return groups;
}

std::optional<at::Tensor> found_inf(const Update& update) {
  if (!update.skip.defined()) return std::nullopt;
  return update.skip;
}

/// Adds the state `what` of each parameter; nothing if there is no such state.
void add_named(const std::string& what, const std::vector<at::Tensor>& state,
               const std::vector<NamedTensor>& parameters, std::vector<NamedTensor>& all) {
  for (std::size_t i = 0; i < state.size(); ++i)
    all.push_back({what + "." + parameters[i].name, state[i]});
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {
    require(is_amount(options.lr) && is_amount(options.momentum) && is_amount(options.weight_decay),
            "sgd: lr, momentum and weight_decay must be finite and not negative");
    require(!options.nesterov || options.momentum > 0, "sgd: nesterov needs a momentum above 0");
    check_groups("sgd", options.groups);
  }

  void bind(std::vector<NamedTensor> parameters) override {
    parameters_ = std::move(parameters);
    groups_ = grouped(parameters_, options_.lr, options_.weight_decay, options_.groups);
    momenta_.clear();
    if (options_.momentum == 0) return;
    for (const NamedTensor& each : parameters_) momenta_.push_back(at::zeros_like(each.tensor));
  }

  void step(const Update& update) override {
    for (const Group& group : groups_) {
      const Active active(parameters_, group.indices);
      if (active.parameters.empty()) continue;
      // Momenta start at zero. Without dampening, the first step then gives the same result as
      // PyTorch's special case for it.
      const auto step_with = [&](const auto& lr) {
        at::_fused_sgd_(active.parameters, active.gradients, active.pick(momenta_),
                        group.weight_decay, options_.momentum, lr, /*dampening=*/0,
                        options_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                        /*grad_scale=*/std::nullopt, found_inf(update));
      };
      update.lr_is_written ? step_with(group.written_lr)
                           : step_with(static_cast<double>(group.rounded_lr(update.lr_factor)));
    }
    at::autocast::clear_cache();  // it contains converted copies of the old parameters
  }

  bool write_lr(double lr_factor) override {
    write_rates(groups_, lr_factor);
    return true;
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    add_named("momentum_buffer", momenta_, parameters_, all);
    return all;
  }

  double lr() const override { return options_.lr; }

 private:
  SgdOptions options_;
  std::vector<NamedTensor> parameters_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> momenta_;
};

class AdamW final : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {
    require(is_amount(options.lr) && is_amount(options.weight_decay) && is_amount(options.eps),
            "adamw: lr, weight_decay and eps must be finite and not negative");
    require(options.betas[0] >= 0 && options.betas[0] < 1 && options.betas[1] >= 0 &&
                options.betas[1] < 1,
            "adamw: betas must be at least 0 and below 1");
    check_groups("adamw", options.groups);
  }

  void bind(std::vector<NamedTensor> parameters) override {
    parameters_ = std::move(parameters);
    groups_ = grouped(parameters_, options_.lr, options_.weight_decay, options_.groups);
    means_.clear();
    squares_.clear();
    steps_.clear();
    for (const auto& [name, parameter] : parameters_) {
      means_.push_back(at::zeros_like(parameter));
      squares_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, parameter.options().dtype(at::kFloat)));
    }
  }

  void step(const Update& update) override {
    for (const Group& group : groups_) {
      const Active active(parameters_, group.indices);
      if (active.parameters.empty()) continue;
      std::vector<at::Tensor> steps = active.pick(steps_);
      at::_foreach_add_(steps, 1);
      const auto step_with = [&](const auto& lr) {
        at::_fused_adamw_(active.parameters, active.gradients, active.pick(means_),
                          active.pick(squares_), {}, steps, lr, options_.betas[0],
                          options_.betas[1], group.weight_decay, options_.eps, /*amsgrad=*/false,
                          /*maximize=*/false, /*grad_scale=*/std::nullopt, found_inf(update));
      };
      update.lr_is_written ? step_with(group.written_lr)
                           : step_with(static_cast<double>(group.rounded_lr(update.lr_factor)));
      // A skipped update does not count as a step. As in PyTorch's own optimizers, the kernel
      // leaves the counts to its caller.
      if (update.skip.defined())
        at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), update.skip));
    }
    at::autocast::clear_cache();
  }

  bool write_lr(double lr_factor) override {
    write_rates(groups_, lr_factor);
    return true;
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    add_named("exp_avg", means_, parameters_, all);
    add_named("exp_avg_sq", squares_, parameters_, all);
    add_named("step", steps_, parameters_, all);
    return all;
  }

  double lr() const override { return options_.lr; }

 private:
  AdamWOptions options_;
  std::vector<NamedTensor> parameters_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> means_, squares_, steps_;
};

bool is_bias(const NamedTensor& parameter) { return parameter.name.ends_with("bias"); }

}  // namespace

ParameterGroup no_weight_decay_on(const std::vector<std::string>& kinds) {
  bool bias = false, norm = false;
  for (const std::string& kind : kinds) {
    if (kind != "bias" && kind != "norm")
      throw Refused(unknown_name("kind of parameter", kind, {"bias", "norm"}));
    (kind == "bias" ? bias : norm) = true;
  }
  return {.takes =
              [bias, norm](const NamedTensor& each) {
                return is_bias(each) ? bias : norm && each.tensor.dim() == 1;
              },
          .weight_decay = 0};
}

std::shared_ptr<Optimizer> sgd(const SgdOptions& options) { return std::make_shared<Sgd>(options); }

std::shared_ptr<Optimizer> adamw(const AdamWOptions& options) {
  return std::make_shared<AdamW>(options);
}

}  // namespace slipstream
