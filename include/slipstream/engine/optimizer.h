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
  double lr_factor = 1;  ///< factor that multiplies all learning rates
  /// A float32 scalar on the parameters' device. If its value is 1, the update changes nothing. If
  /// the tensor is undefined, the update always applies.
  at::Tensor skip = {};
  /// Whether step() must use the learning rates that write_lr() has written, instead of computing
  /// them from `lr_factor`. Set only if write_lr() returned true.
  bool lr_is_written = false;
};

/// Updates parameters from their gradients. No function may wait for the device.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Receives the parameters, which are already on their device, and creates the state for them.
  /// Throws Refused if it cannot train them.
  virtual void bind(std::vector<NamedTensor> parameters) = 0;
  /// Enqueues an update on the current stream. Parameters without a gradient do not change.
  virtual void step(const Update& update) = 0;
  /// Writes the learning rates of the next update, multiplied by `lr_factor`, to memory of the
  /// device, and returns true. step() with Update::lr_is_written can then be recorded in a CUDA
  /// graph, which repeats it with the numbers that are in that memory. The default returns false:
  /// step() depends on numbers of the host, so a training step with this optimizer gets no graph.
  virtual bool write_lr(double lr_factor);
  /// Returns the tensors of the state themselves, not copies, in a fixed order and with distinct
  /// names. The names in sgd() and adamw() consist of torch.optim's name and the parameter's name,
  /// such as "momentum_buffer.fc.weight" and "exp_avg.fc.weight".
  virtual std::vector<NamedTensor> state() const = 0;
  /// Returns the learning rate, without Update::lr_factor and ParameterGroup::lr_factor.
  virtual double lr() const = 0;
};

inline bool Optimizer::write_lr(double) { return false; }

/// A group of parameters with a different learning rate or weight decay.
struct ParameterGroup {
  /// Returns true if a parameter, which is on its device, belongs to the group. A parameter belongs
  /// to the first group that accepts it.
  std::function<bool(const NamedTensor& parameter)> takes;
  double lr_factor = 1;  ///< factor that multiplies the learning rate
  /// No value: the optimizer's weight decay applies.
  std::optional<double> weight_decay = std::nullopt;
};

/// Returns a group of parameters without weight decay: all parameters of the given kinds. "bias":
/// parameters whose name ends with "bias". "norm": other parameters with one dimension, such as the
/// weights of normalization layers. Throws Refused for any other kind.
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

/// The learning rate over the updates of a training, as a factor that multiplies it. During the
/// first `warmup` updates it rises linearly from `warmup_factor` to 1, as LinearLR of
/// torch.optim.lr_scheduler does. The schedule of `kind` starts after that.
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
  /// Number of updates in the whole training; unused by constant and step.
  std::uint64_t updates = 0;
  std::uint64_t step_size = 0;  ///< at least 1 for step
  double gamma = 0.1;
  double end_factor = 0;
  std::uint64_t warmup = 0;
  double warmup_factor = 0.01;
  bool operator==(const LrSchedule&) const = default;

  /// Returns the factor for update number `update`, counted from 0. After the last update it stays
  /// constant.
  double factor(std::uint64_t update) const;
  /// Throws Refused, with the reason, if the numbers do not fit together.
  void validate() const;
};
/// Returns the kind of that name: "constant", "step", "cosine", "linear" or "one-cycle". Throws
/// Refused for any other name.
LrSchedule::Kind schedule_named(const std::string& name);

}  // namespace slipstream
