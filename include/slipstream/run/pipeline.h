#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"
#include "slipstream/loader/data_loader.h"
#include "slipstream/plan/plan.h"
#include "slipstream/train/stage.h"

namespace slipstream {

/// The name of the device step that does the transforms which a plan gives to the device. No stage
/// may then have this name.
inline constexpr const char* kAugmentStep = "augment";
/// The name of the device step that does the operations over batches (batch_ops.h).
inline constexpr const char* kMixStep = "mix";

struct StepCosts;

/// Options of a Pipeline.
struct PipelineOptions {
  std::size_t batch_size = 8;  ///< samples in a batch of one rank, at least 1
  std::uint64_t seed = 1;      ///< of the order of samples and all random draws
  bool shuffle = true;         ///< false: samples come by number
  DecodeOptions decode = {};
  OnBadSample on_bad_sample = OnBadSample::stop;
  Sampling sampler = {};  ///< how often each sample comes in an epoch
  Rank rank = {};         ///< which part of every step this process loads
  bool drop_last = true;  ///< what DataLoaderOptions::drop_last says
};

/// A training pipeline, declared once: data set -> transforms of samples -> batch -> copy -> device
/// stages -> training stage. Plans and measurements are derived from it. Only the last stage
/// trains, so running the earlier ones ahead changes no result.
class Pipeline {
 public:
  /// Begins a pipeline over `dataset`. Throws Refused for a null data set and a batch size of 0.
  Pipeline(std::shared_ptr<const Dataset> dataset, PipelineOptions options);

  /// Adds an operation on samples, which loader threads do unless a plan gives it to the device, or
  /// an operation over batches, which comes last and is done by the device (batch_ops.h). Throws
  /// Refused for an empty name or one that is taken, for bad parameters, and where BatchOps::take()
  /// does.
  Pipeline transform(std::string name, AnyOp op) &&;
  /// Adds a stage ahead of training. Throws Refused for an empty name or one that is taken.
  Pipeline stage(std::string name, FrozenStage stage) &&;
  /// Adds the last stage, which trains `module`. It may have the name of a host step ("decode"),
  /// for no Cut can mean it. Throws Refused with all that is wrong: an empty name or one that is
  /// taken, no optimizer, a module without a parameter to train, and what problems_of() says of the
  /// stages.
  Pipeline train(std::string name, ModuleRef module, std::shared_ptr<Optimizer> optimizer,
                 Loss loss) &&;

  /// A stage ahead of training and its name.
  struct NamedStage {
    std::string name;
    FrozenStage stage;
  };
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const PipelineOptions& options() const { return options_; }
  /// The operations on samples; batch_ops() has those over batches.
  const std::vector<NamedOp>& transforms() const { return transforms_; }
  const BatchOps& batch_ops() const { return batch_ops_; }
  const std::vector<NamedStage>& stages() const { return stages_; }
  const std::string& train_name() const { return train_name_; }
  const TrainStage& train_stage() const { return train_; }
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
  friend struct Inside;
  void claim(const std::string& name, bool trains) const;

  std::shared_ptr<const Dataset> dataset_;
  PipelineOptions options_;
  std::vector<NamedOp> transforms_;
  BatchOps batch_ops_;
  std::vector<NamedStage> stages_;
  std::string train_name_;
  TrainStage train_;
  std::shared_ptr<const StepCosts> costs_;  ///< nullptr: none
};

/// Begins a pipeline over `dataset`, for .transform(), .stage() and .train() to be called on.
/// Throws Refused for a null data set and a batch size of 0.
inline Pipeline pipeline(std::shared_ptr<const Dataset> dataset, PipelineOptions options) {
  return Pipeline(std::move(dataset), options);
}

}  // namespace slipstream
