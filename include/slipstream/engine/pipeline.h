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

/// The name of the device step that does the transforms which a plan gives to the device. No stage
/// may then have this name.
inline constexpr const char* kAugmentStep = "augment";
/// The name of the device step that does the operations over batches (batch_ops.h).
inline constexpr const char* kMixStep = "mix";

struct StepCosts;

/// A training pipeline, declared once: data set -> transforms of samples -> batch -> copy -> device
/// stages -> training stage. Plans and measurements are derived from it. Only the last stage
/// trains, so running the earlier ones ahead changes no result.
class Pipeline {
 public:
  /// Begins a pipeline over `dataset`. Throws Refused for a null data set and a batch size of 0.
  Pipeline(std::shared_ptr<const Dataset> dataset, SampleOptions options);

  /// Adds an operation on samples, which loader threads do unless a plan gives it to the device, or
  /// an operation over batches, which comes last and is done by the device (batch_ops.h). Throws
  /// Refused for an empty name or one that is taken, for bad parameters, and where BatchOps::take()
  /// does.
  Pipeline transform(std::string name, AnyOp op) &&;
  /// Adds a stage ahead of training. Throws Refused for an empty name or one that is taken.
  Pipeline stage(std::string name, FrozenStage stage) &&;
  /// Adds the last stage, which trains `module`. It may have the name of a host step ("decode"),
  /// for no Cut can mean it. Throws Refused with all that is wrong: an empty name or one that is
  /// taken, no optimizer, a module without a parameter to train, what find_problems() says of the
  /// stages, and options that are out of range.
  Pipeline train(std::string name, ModuleRef module, std::shared_ptr<Optimizer> optimizer,
                 Loss loss, TrainingOptions options = {}) &&;
  /// Adds a last stage of your own. Throws Refused as above.
  Pipeline train(std::string name, std::shared_ptr<TrainStep> step) &&;
  /// Adds a score that is counted where the pipeline is evaluated. Throws Refused for a name that
  /// is taken; "loss" and "accuracy" are.
  Pipeline metric(Metric metric) &&;
  /// Trains with other options than were declared. Throws Refused where the last stage is one of
  /// your own, or there is none yet, and for options that are out of range.
  Pipeline with_training(TrainingOptions options) &&;

  /// A stage ahead of training and its name.
  struct NamedStage {
    std::string name;
    FrozenStage stage;
  };
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const SampleOptions& options() const { return options_; }
  /// The operations on samples; batch_ops() has those over batches.
  const std::vector<NamedOp>& transforms() const { return transforms_; }
  const BatchOps& batch_ops() const { return batch_ops_; }
  const std::vector<NamedStage>& stages() const { return stages_; }
  const std::string& train_name() const { return train_name_; }
  const std::vector<Metric>& metrics() const { return metrics_; }
  /// How the module of the last stage is trained.
  const TrainingOptions& training() const { return training_; }
  /// The last stage; nullptr where there is none yet.
  const std::shared_ptr<TrainStep>& train_step() const { return step_; }
  /// What the last stage was made of; empty for one of your own.
  const TrainStage& train_stage() const { return stage_; }
  /// The options of a loader for this pipeline under `plan`. The caller sets where batches begin
  /// (first_batch) and where their memory comes from (memory). Throws Refused where the plan names
  /// a transform that the pipeline does not have.
  DataLoaderOptions loader_options(const Plan& plan) const;
  /// How many steps an epoch has, whatever the plan: samples / (batch_size * rank.count), rounded
  /// down or, without drop_last, up. Throws Refused for a batch of all ranks that is larger than
  /// the data set.
  std::uint64_t batches_per_epoch() const;

  /// The names of the host's steps in order: read, decode, the transforms ahead of `on_device`
  /// (LoaderPlan::on_device; empty: all of them), collate. Throws Refused where no transform has
  /// that name.
  std::vector<std::string> host_steps(const std::string& on_device = "") const;
  /// The names of the device's steps in order: copy, "augment" where `on_device` is not empty,
  /// "mix" where there are operations over batches, the stages, the training stage. Throws Refused
  /// where no transform has the name `on_device`, and where a stage is called "augment" beside that
  /// step.
  std::vector<std::string> device_steps(const std::string& on_device = "") const;
  /// The number of transforms from `on_device` on; 0 where it is empty. Throws Refused where no
  /// transform has that name.
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
  std::vector<Metric> metrics_;
  std::shared_ptr<const StepCosts> costs_;  ///< nullptr: none
};

/// Begins a pipeline over `dataset`, for .transform(), .stage() and .train() to be called on.
/// Throws Refused for a null data set and a batch size of 0.
inline Pipeline pipeline(std::shared_ptr<const Dataset> dataset, SampleOptions options) {
  return {std::move(dataset), std::move(options)};
}

/// The first transform from which on the device can do all, where fields travel in `wire`; of
/// images that differ in size rather a random resized crop or what stands behind such a transform,
/// for others make samples that are smaller to copy and to cache. For LoaderPlan::on_device. Throws
/// Refused, saying why, where the device cannot do even the last.
std::string first_on_device(const Pipeline& pipeline, const WireFormats& wire = {});
/// The same, but "" where nothing is gained by it.
std::string first_worth_doing_on_device(const Pipeline& pipeline, const WireFormats& wire = {});

/// Throws Refused unless `transforms_device` is "cpu" (the loader's threads do the transforms) or
/// "cuda" (the GPU does those that it can), and the latter only where the training's `device` is a
/// GPU.
void check_transforms_device(const std::string& transforms_device, DeviceKind device);

/// make_plan for `pipeline`, with the loader's threads doing its transforms ("cpu"), or with the
/// device doing them ("cuda") from `loader.on_device` on or, if that is empty, from
/// first_on_device. In a pipelined plan those on the device have a lane of their own, and so have
/// operations over batches; these two share a lane. Where `device` is a CPU, "cuda" means lanes on
/// the CPU, which do the same operations: this is for tests, and check_transforms_device() refuses
/// it to users. Throws Refused as make_plan and first_on_device do, and for another
/// `transforms_device`.
Plan placed_plan(const Pipeline& pipeline, const std::string& mode,
                 const std::string& transforms_device, DeviceKind device, LoaderPlan loader,
                 const Plan::Numerics& numerics);

}  // namespace slipstream
