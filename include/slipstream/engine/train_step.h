#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/engine/batch.h"
#include "slipstream/engine/loss.h"
#include "slipstream/engine/optimizer.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace slipstream {

/// What a step of the training has to know of the run.
struct StepSettings {
  bool fp16 = false;  ///< whether the module computes in fp16, so that losses must be scaled
};

/// A module that a step trains, and its name. Its parameters and buffers have that name and '.'
/// ahead of their own, or their own alone where the name is "".
struct NamedModule {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
};

/// The last stage of a pipeline, which trains. Pipeline::train() makes one of a module, an
/// optimizer and a loss. A class of your own does what that cannot, such as training two modules
/// with two optimizers against each other (docs/programs.md has an example).
///
/// The functions are called with the device's stream of the training lane as the current stream.
/// They enqueue work and never wait for the device. Between two calls of train() all that later
/// ones depend on is in the parameters and buffers of modules() and in the tensors of state(): that
/// is what State, checkpoints and digests hold.
class TrainStep {
 public:
  virtual ~TrainStep() = default;
  /// The modules that it trains. Names differ.
  virtual std::vector<NamedModule> modules() const = 0;
  /// Is called once, when the modules are on the device, in the plan's memory layout and in
  /// training mode. Makes optimizers' states there.
  virtual void bind(const StepSettings& settings) = 0;
  /// Trains on a batch: forward, loss, backward and what updates it asks for. PyTorch's default
  /// generator of the device has been seeded with the pipeline's seed and the number of the batch.
  /// The gradients that the modules' parameters have afterwards are dropped.
  virtual LossValue train(const Batch& batch) = 0;
  /// The tensors, other than those of modules(), that train() changes: themselves, not copies, in a
  /// fixed order, each with a name of its own. Those of averaged() are called "ema." and their name
  /// there; checkpoints write them into a file of their own.
  virtual std::vector<NamedTensor> state() const = 0;
  /// After train() threw: whether the parameters and buffers and the tensors of state() are still
  /// as they were before it. Where it returns false the training goes on from a State alone.
  virtual bool is_intact() const { return false; }

  /// Computes what the model makes of a batch, its first dimension the samples, with modules in
  /// evaluation mode and without gradients, and changes nothing but fields of `batch`, which it may
  /// set as further outputs. Throws Error where there is no such thing (the default).
  virtual at::Tensor predict(Batch& batch);
  /// The loss of what predict() returned, with the fields that it left. Without a loss (the
  /// default): an undefined tensor.
  virtual LossValue compute_loss(const at::Tensor& output, const Batch& batch);
  /// Tensors to evaluate with instead of the parameters and buffers of modules() that have their
  /// names: running averages. They are part of state().
  virtual std::vector<NamedTensor> averaged() const { return {}; }
  /// The learning rate with which batch number `batch` is trained; no value: there is none.
  virtual std::optional<double> lr(std::uint64_t batch) const;
};

/// What happens to an update whose gradients, or whose loss, are not finite.
enum class OnNonFinite : std::uint8_t {
  stop,  ///< a loss that is not finite ends the run with an error
  /// The update is left out: parameters and the optimizer's state stay, and with a loss that is not
  /// finite the buffers, too. Averages take the parameters as they are.
  skip
};

/// How a module is trained with an optimizer and a loss.
struct TrainingOptions {
  /// The batches whose gradients are averaged for one update, at least 1. Batches are counted
  /// through all epochs: batch n belongs to update n / accumulate. With more than 1 a parameter
  /// that has no gradient counts as one with a gradient of zeros.
  unsigned accumulate = 1;
  /// The largest norm of all gradients together; larger ones are scaled down to it, as
  /// torch.nn.utils.clip_grad_norm_ does. 0: they are not.
  double clip_grad_norm = 0;
  /// After each update an average of each parameter and each float buffer becomes ema_decay *
  /// average + (1 - ema_decay) * parameter; other buffers are copied. 0: there is no average.
  double ema_decay = 0;
  OnNonFinite on_nan = OnNonFinite::stop;
  LrSchedule schedule = {};  ///< of updates, not batches
};

/// How a stage calls a module: it makes an output of a batch, whose field `input` goes in. It may
/// set fields of the batch, as further outputs.
using BatchForward = std::function<at::Tensor(Batch& batch, const std::string& input)>;

/// A module, how it is called, and how it is trained.
struct TrainStage {
  std::shared_ptr<torch::nn::Module> module;
  BatchForward forward;
  std::shared_ptr<Optimizer> optimizer;
  Loss loss;
};

/// The step that trains the module of `stage`: forward, loss, backward, and an update after every
/// `accumulate` batches. It computes an output in fp16 as float32 before the loss. Losses are then
/// scaled by a factor that is halved after gradients that are not finite, whose update is left out,
/// and doubled after 2,000 that were, as torch.amp.GradScaler does. Throws Refused for options that
/// are out of range.
std::shared_ptr<TrainStep> train_step(TrainStage stage, TrainingOptions options = {});

}  // namespace slipstream
