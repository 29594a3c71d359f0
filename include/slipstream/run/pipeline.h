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

/// The device step of the transforms that a plan gives to the device; no stage may then have its
/// name.
inline constexpr const char* kAugmentStep = "augment";
/// That of the operations over batches (batch_ops.h), where there are any.
inline constexpr const char* kMixStep = "mix";

struct StepCosts;

struct PipelineOptions {
  std::size_t batch_size = 8;
  std::uint64_t seed = 1;  ///< sample order and every random draw
  bool shuffle = true;
  DecodeOptions decode = {};
  OnBadSample on_bad_sample = OnBadSample::stop;
  Sampling sampler = {};  ///< how often each sample comes
  Rank rank = {};         ///< of the processes that train together
  bool drop_last = true;  ///< DataLoaderOptions::drop_last
};

/// A training pipeline, declared once: data set -> per-sample transforms -> batch -> copy -> device
/// stages -> training stage. Everything else (plans, measurements) is derived from it. Only the
/// last stage trains; running the earlier ones ahead then changes nothing.
class Pipeline {
 public:
  Pipeline(std::shared_ptr<const Dataset> dataset, PipelineOptions options);

  /// Per sample, on loader threads; or one of the operations over batches, which come last and are
  /// the device's (batch_ops.h). Throws Refused for a name already taken or bad parameters, or as
  /// BatchOps::take() does.
  Pipeline transform(std::string name, AnyOp op) &&;
  /// A stage ahead of training. Throws Refused as above.
  Pipeline stage(std::string name, FrozenStage stage) &&;
  /// The last stage; it may have a host step's name ("decode"), for no Cut can mean it. Throws
  /// Refused with everything that is wrong with the stages (problems_of), or when the trained
  /// module has no parameter to train.
  Pipeline train(std::string name, ModuleRef module, std::shared_ptr<Optimizer> optimizer,
                 Loss loss) &&;

  struct NamedStage {
    std::string name;
    FrozenStage stage;
  };
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const PipelineOptions& options() const { return options_; }
  /// Those of samples.
  const std::vector<NamedOp>& transforms() const { return transforms_; }
  const BatchOps& batch_ops() const { return batch_ops_; }
  const std::vector<NamedStage>& stages() const { return stages_; }
  const std::string& train_name() const { return train_name_; }
  const TrainStage& train_stage() const { return train_; }
  /// Of a loader for it under `plan`; where batches begin and lie is its user's. Throws Refused for
  /// a transform that is not there.
  DataLoaderOptions loader_options(const Plan& plan) const;
  /// How many steps an epoch has, whatever the plan: samples / (batch_size * rank.count), rounded
  /// down or, without drop_last, up. Throws Refused for a batch of all ranks that is larger than
  /// the data set.
  std::uint64_t batches_per_epoch() const;

  /// Names of all steps in order: read, decode, the transforms, collate | copy, "augment" where the
  /// device does the transforms from `on_device` on (LoaderPlan::on_device), "mix" where there are
  /// operations over batches, the stages, the training stage. Throws Refused for a transform that
  /// is not there.
  std::vector<std::string> host_steps(const std::string& on_device = "") const;
  std::vector<std::string> device_steps(const std::string& on_device = "") const;
  /// How many transforms those are. Throws the same.
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

inline Pipeline pipeline(std::shared_ptr<const Dataset> dataset, PipelineOptions options) {
  return Pipeline(std::move(dataset), options);
}

}  // namespace slipstream
