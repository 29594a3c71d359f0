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

/// Properties of the run that a training step must know.
struct StepSettings {
  bool fp16 = false;  ///< whether the module computes in fp16, so that losses must be scaled
};

/// A module that a step trains, and its name. The names of its parameters and buffers are prefixed
/// with that name and '.', or with nothing if the name is "".
struct NamedModule {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
};

/// Which work TrainStep::train() enqueues for a batch. Two batches with equal `text` and fields of
/// equal shapes get the same operations with the same numbers, except for numbers that are in
/// memory of the device.
struct GraphKey {
  std::string text;
  std::string objection =
      {};  ///< the reason why train() cannot be recorded in a CUDA graph; "": none
};

/// The last stage of a pipeline, which trains. Pipeline::train() makes one from a module, an
/// optimizer and a loss. Derive a class for a training that needs more, such as an adversarial
/// training of two modules with two optimizers (docs/programs.md has an example).
///
/// The functions are called while the stream of the training lane is the current one. They enqueue
/// work and must not wait for the device. Everything that later calls of train() depend on must be
/// in the parameters and buffers of modules() or in the tensors of state(), because State,
/// checkpoints and digests contain exactly these tensors.
class TrainStep {
 public:
  virtual ~TrainStep() = default;
  /// Returns the modules that this step trains. Their names must be distinct.
  virtual std::vector<NamedModule> modules() const = 0;
  /// Called once, when the modules are on the device, in the plan's memory layout and in training
  /// mode. Creates the optimizers' state there.
  virtual void bind(const StepSettings& settings) = 0;
  /// Trains on a batch: forward, loss, backward and the update, if one is due. PyTorch's default
  /// generator of the device has been seeded from the pipeline's seed and the number of the batch.
  /// The gradients that the modules' parameters have afterwards are dropped.
  virtual LossValue train(const Batch& batch) = 0;
  /// Returns the tensors, other than those of modules(), that train() changes. These are the
  /// tensors themselves, not copies, in a fixed order and with distinct names. The tensors of
  /// averaged() are included, with "ema." before their name; checkpoints write them to a separate
  /// file.
  virtual std::vector<NamedTensor> state() const = 0;
  /// Returns true if, after train() threw, the parameters, the buffers and the tensors of state()
  /// are still as they were before that call. If it returns false, training can continue only after
  /// a State has been restored.
  virtual bool is_intact() const { return false; }

  /// Computes the model's output for a batch. The first dimension of the output is the samples.
  /// Modules are in evaluation mode, and no gradients are computed. The call changes nothing except
  /// fields of `batch`, which it may set as further outputs. The default throws Error, because the
  /// step has no prediction.
  virtual at::Tensor predict(Batch& batch);
  /// Returns the loss of `output`, which predict() returned, with the fields that predict() left in
  /// `batch`. The default returns an undefined loss tensor, which means that there is no loss.
  virtual LossValue compute_loss(const at::Tensor& output, const Batch& batch);
  /// Returns tensors, such as running averages, that replace the parameters and buffers of the same
  /// name for evaluation. They are part of state().
  virtual std::vector<NamedTensor> averaged() const { return {}; }
  /// Called before train() under a plan with CUDA graphs, on the same stream. A graph of one batch
  /// is replayed for each later batch with the same key and shapes, and train() is not called for
  /// it. The function must therefore write numbers that differ from batch to batch, such as the
  /// learning rate, to device memory that train() reads. The default objects.
  virtual GraphKey graph_key(const Batch& batch);
  /// Returns the learning rate for batch number `batch`; no value if there is none.
  virtual std::optional<double> lr(std::uint64_t batch) const;
};

/// What happens to an update if its gradients or its loss are not finite.
enum class OnNonFinite : std::uint8_t {
  stop,  ///< a loss that is not finite ends the run with an error
  /// The update is skipped: the parameters and the optimizer's state stay unchanged. If the loss is
  /// not finite, the buffers stay unchanged, too. Averages are updated with the unchanged
  /// parameters.
  skip
};

/// How a module is trained with an optimizer and a loss.
struct TrainingOptions {
  /// The number of batches whose gradients are averaged for one update, at least 1. Batches are
  /// counted through all epochs: batch n belongs to update n / accumulate. If it is more than 1, a
  /// parameter without a gradient counts as having a gradient of zeros.
  unsigned accumulate = 1;
  /// The largest norm of all gradients together. Gradients with a larger norm are scaled down to
  /// it, as torch.nn.utils.clip_grad_norm_ does. 0 disables this.
  double clip_grad_norm = 0;
  /// After each update, the average of each parameter and of each floating-point buffer becomes
  /// ema_decay * average + (1 - ema_decay) * value; other buffers are copied. 0: no averages are
  /// kept.
  double ema_decay = 0;
  OnNonFinite on_nan = OnNonFinite::stop;
  LrSchedule schedule = {};  ///< the learning rate, counted in updates, not in batches
};

/// A function that computes a module's output for a batch. `input` is the name of the field that is
/// passed to the module. The function may set fields of the batch as further outputs.
using BatchForward = std::function<at::Tensor(Batch& batch, const std::string& input)>;

/// Returns the number of samples of a batch, given its number.
using BatchSize = std::function<std::int64_t(std::uint64_t number)>;

/// A module, how it is called, and how it is trained.
struct TrainStage {
  std::shared_ptr<torch::nn::Module> module;
  BatchForward forward;
  std::shared_ptr<Optimizer> optimizer;
  Loss loss;
  BatchSize batch_size = {};  ///< ModuleRef::batch_size
};

/// Returns the step that trains the module of `stage`: forward, loss, backward, and an update after
/// every `accumulate` batches. An fp16 output is converted to float32 before the loss. For a module
/// in fp16, losses are scaled by a factor, as torch.amp.GradScaler does: it is halved after
/// gradients that are not finite, whose update is skipped, and doubled after 2,000 updates with
/// finite gradients. Throws Refused if options are out of range.
std::shared_ptr<TrainStep> train_step(TrainStage stage, TrainingOptions options = {});

}  // namespace slipstream
