#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"
#include "slipstream/engine/plan.h"
#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"
#include "slipstream/loader/sample_options.h"

namespace slipstream {

/// Name of the device step that applies the transforms which a plan assigns to the device. While a
/// plan has this step, no stage may have this name.
inline constexpr const char* kAugmentStep = "augment";
/// Name of the device step that applies the operations on whole batches (batch_ops.h).
inline constexpr const char* kMixStep = "mix";

class BatchLister;
struct StepCosts;

/// A training pipeline, declared once: data set -> transforms of samples -> batch -> copy -> device
/// stages -> training stage. Plans and measurements are derived from it. Only the last stage
/// trains. The results of earlier stages therefore do not depend on the weights being trained, and
/// a plan can run these stages in advance without changing any result.
///
/// A Pipeline is a value. Copies share the data set, the modules and the training step. Building
/// one reads no sample and enqueues no work on a device.
class Pipeline {
 public:
  /// Starts a declaration over `dataset`. Throws Refused if the data set is null or the batch size
  /// is 0.
  Pipeline(std::shared_ptr<const Dataset> dataset, SampleOptions options);

  /// Adds an operation on samples or on whole batches (batch_ops.h). Loader threads apply an
  /// operation on samples, unless the plan assigns it to the device. The device applies operations
  /// on whole batches, so they must follow all operations on samples. Throws Refused if the name is
  /// empty or already used, if parameters are invalid, or if BatchOps::take() throws it.
  Pipeline transform(std::string name, AnyOp op) &&;
  /// Adds a device stage that runs before the training stage. Throws Refused if the name is empty
  /// or already used.
  Pipeline stage(std::string name, FrozenStage stage) &&;
  /// Adds the last stage, which trains `module`. It may have the name of a host step, such as
  /// "decode", because a Cut cannot name the last stage. Throws Refused with all problems at once:
  /// an empty or used name, no optimizer, a module without trainable parameters, the problems that
  /// find_problems() reports for the stages, and options that are out of range.
  Pipeline train(std::string name, ModuleRef module, std::shared_ptr<Optimizer> optimizer,
                 Loss loss, TrainingOptions options = {}) &&;
  /// Adds a custom last stage. Throws Refused for the problems listed above.
  Pipeline train(std::string name, std::shared_ptr<TrainStep> step) &&;
  /// Adds a score that is computed when the pipeline is evaluated. Throws Refused if the name is
  /// already used; "loss" and "accuracy" always are.
  Pipeline metric(Metric metric) &&;
  /// Makes `lister` decide which samples each batch of a training has, such as a sampler in Python.
  /// The options of the order (shuffle, sampler, rank and drop_last) then only apply to
  /// measurements of single lanes and cached steps.
  Pipeline listed_by(std::shared_ptr<BatchLister> lister) &&;
  /// Replaces the training options. Throws Refused if the last stage is a custom TrainStep or has
  /// not been declared yet, and if options are out of range.
  Pipeline with_training(TrainingOptions options) &&;

  /// A stage that runs before the training stage, and its name.
  struct NamedStage {
    std::string name;
    FrozenStage stage;
  };
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const SampleOptions& options() const { return options_; }
  /// The operations on samples. batch_ops() returns the operations on whole batches.
  const std::vector<NamedOp>& transforms() const { return transforms_; }
  const BatchOps& batch_ops() const { return batch_ops_; }
  const std::vector<NamedStage>& stages() const { return stages_; }
  const std::string& train_name() const { return train_name_; }
  const std::vector<Metric>& metrics() const { return metrics_; }
  /// The options with which the module of the last stage is trained.
  const TrainingOptions& training() const { return training_; }
  /// The last stage; nullptr if none has been declared.
  const std::shared_ptr<TrainStep>& train_step() const { return step_; }
  /// The module, optimizer and loss of the last stage; empty if it is a custom TrainStep.
  const TrainStage& train_stage() const { return stage_; }
  /// Lists the batches of a training; nullptr if their order is computed.
  const std::shared_ptr<BatchLister>& lister() const { return lister_; }
  /// Returns the options of a DataLoader for this pipeline under `plan`. The caller sets the first
  /// batch (first_batch) and the memory resource of the slabs (memory). Throws Refused if the plan
  /// names a transform that the pipeline does not have.
  DataLoaderOptions loader_options(const Plan& plan) const;
  /// Returns the number of steps in an epoch, which is the same for every plan: that of the lister,
  /// or samples / (batch_size * rank.count), rounded down or, without drop_last, up. Throws Refused
  /// if one batch of all ranks together is larger than the data set.
  std::uint64_t batches_per_epoch() const;

  /// Returns the names of the host steps in order: read, decode, the transforms before `on_device`
  /// (LoaderPlan::on_device; all of them if it is empty), collate. Throws Refused if no transform
  /// has the name `on_device`.
  std::vector<std::string> host_steps(const std::string& on_device = "") const;
  /// Returns the names of the device steps in order: copy, "augment" if `on_device` is not empty,
  /// "mix" if there are operations on whole batches, the stages, the training stage. Throws Refused
  /// if no transform has the name `on_device`, or if a stage is also called "augment" although that
  /// step exists.
  std::vector<std::string> device_steps(const std::string& on_device = "") const;
  /// Returns the number of transforms from `on_device` to the last one; 0 if `on_device` is empty.
  /// Throws Refused if no transform has that name.
  std::size_t transforms_from(const std::string& on_device) const;

 private:
  friend struct Access;
  void claim(const std::string& name, bool trains) const;
  void check_trains(const std::string& name, std::vector<std::string> problems) const;

  std::shared_ptr<const Dataset> dataset_;
  SampleOptions options_;
  std::vector<NamedOp> transforms_;
  BatchOps batch_ops_;
  std::vector<NamedStage> stages_;
  std::string train_name_;
  TrainStage stage_;
  TrainingOptions training_;
  std::shared_ptr<TrainStep> step_;
  std::shared_ptr<BatchLister> lister_;
  std::vector<Metric> metrics_;
  std::shared_ptr<const StepCosts> costs_;  ///< nullptr: none
};

/// Starts a declaration over `dataset`, to be completed with .transform(), .stage() and .train().
/// Throws Refused if the data set is null or the batch size is 0.
inline Pipeline pipeline(std::shared_ptr<const Dataset> dataset, SampleOptions options) {
  return {std::move(dataset), std::move(options)};
}

/// Returns the name of the first transform that the device should apply, together with all that
/// follow it, if fields travel in the formats `wire`. The result is a value for
/// LoaderPlan::on_device. If images differ in size, this is a random resized crop or a transform
/// after the images have one size. Other crops and resizes stay on the host, because they make
/// samples smaller to copy and to cache. If no such transform exists, returns the first one that
/// the device can apply. Throws Refused, with the reason, if the device cannot apply even the last
/// transform.
std::string first_on_device(const Pipeline& pipeline, const WireFormats& wire = {});
/// Returns what first_on_device() returns, or "" if moving transforms to the device gains nothing.
std::string first_worth_doing_on_device(const Pipeline& pipeline, const WireFormats& wire = {});

/// Throws Refused unless `transforms_device` is "cpu" (loader threads apply the transforms) or
/// "cuda" (the GPU applies those that it can), and if it is "cuda" although the training's `device`
/// is a CPU.
void check_transforms_device(const std::string& transforms_device, DeviceKind device);

/// Makes a plan for `pipeline`. If `transforms_device` is "cpu", loader threads apply its
/// transforms. If it is "cuda", the device applies the transforms from `loader.on_device` to the
/// last one or, if that is empty, from first_on_device(). In a pipelined plan, the transforms on
/// the device and the operations on whole batches share one lane, separate from the other steps. If
/// `device` is a CPU, "cuda" selects CPU lanes that apply the same operations. Only tests use this:
/// check_transforms_device() refuses it for users. Throws Refused as make_plan() and
/// first_on_device() do, and for any other `transforms_device`.
Plan placed_plan(const Pipeline& pipeline, const std::string& mode,
                 const std::string& transforms_device, DeviceKind device, LoaderPlan loader,
                 const Plan::Numerics& numerics);

}  // namespace slipstream
