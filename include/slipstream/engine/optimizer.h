#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace slipstream {

/// A tensor and its name. Parameters and buffers have the names that they have in PyTorch's
/// state_dict(), such as "layer1.0.conv1.weight".
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// One update of the parameters.
struct Update {
  double lr_factor = 1;  ///< by which all learning rates are multiplied
  /// A float32 scalar on the parameters' device: where it is 1, nothing changes. Undefined: this
  /// is an update in any case.
  at::Tensor skip = {};
};

/// Updates parameters from their gradients. It must never wait for the device.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Takes the parameters, which are on their device, and makes the state for them. Throws Refused
  /// where it cannot train them.
  virtual void bind(std::vector<NamedTensor> parameters) = 0;
  /// Enqueues an update on the current stream. Parameters without a gradient are left alone.
  virtual void step(const Update& update) = 0;
  /// The tensors of the state themselves, not copies, in a fixed order. Their names differ: those
  /// of sgd() and adamw() are what torch.optim calls them and the parameter's name, such as
  /// "momentum_buffer.fc.weight" and "exp_avg.fc.weight".
  virtual std::vector<NamedTensor> state() const = 0;
  /// The learning rate, without Update::lr_factor and ParameterGroup::lr_factor.
  virtual double lr() const = 0;
};

/// Parameters that are trained otherwise than the rest.
struct ParameterGroup {
  /// Whether a parameter, on its device, belongs to the group. The first group that takes a
  /// parameter has it.
  std::function<bool(const NamedTensor& parameter)> takes;
  double lr_factor = 1;                               ///< by which the learning rate is multiplied
  std::optional<double> weight_decay = std::nullopt;  ///< no value: that of the optimizer
};

/// A group of parameters that do not decay: those of every kind in `kinds`. "bias": parameters
/// whose name ends with "bias". "norm": parameters of one dimension that are no bias, as the
/// weights of normalizations are. Throws Refused for another kind.
ParameterGroup no_weight_decay_on(const std::vector<std::string>& kinds);

/// Options of sgd(). Numbers are finite and at least 0.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< needs a momentum above 0
  std::vector<ParameterGroup> groups = {};
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
  std::vector<ParameterGroup> groups = {};
};
/// AdamW in the form of torch.optim.AdamW, in fused kernels. Source: Loshchilov and Hutter,
/// "Decoupled weight decay regularization", ICLR 2019. Throws Refused for bad options.
std::shared_ptr<Optimizer> adamw(const AdamWOptions& options);

/// How the learning rate goes over the updates of a training: a factor by which it is multiplied.
/// During the first `warmup` updates it rises linearly from `warmup_factor` to 1, as LinearLR of
/// torch.optim.lr_scheduler does; what follows begins then.
struct LrSchedule {
  enum class Kind : std::uint8_t {
    constant,
    step,      ///< StepLR: multiplied by `gamma` after every `step_size` updates
    cosine,    ///< CosineAnnealingLR: from 1 to `end_factor` by the last update
    linear,    ///< LinearLR: from 1 to `end_factor`
    one_cycle  ///< OneCycleLR without momentum: rises for 30 % of the updates from 1/25 to 1, then
               ///< falls to 1/250,000, by half cosines; it has no further warm-up
  };
  Kind kind = Kind::constant;
  std::uint64_t updates = 0;    ///< of the whole training; for all kinds but constant and step
  std::uint64_t step_size = 0;  ///< at least 1 for step
  double gamma = 0.1;
  double end_factor = 0;
  std::uint64_t warmup = 0;
  double warmup_factor = 0.01;
  bool operator==(const LrSchedule&) const = default;

  /// The factor of update number `update`, counted from 0. Behind the last update it stays.
  double factor(std::uint64_t update) const;
  /// Throws Refused, saying what is wrong, for numbers that do not fit together.
  void validate() const;
};
/// The kind of that name: "constant", "step", "cosine", "linear" or "one-cycle". Throws Refused for
/// another name.
LrSchedule::Kind schedule_named(const std::string& name);

}  // namespace slipstream
