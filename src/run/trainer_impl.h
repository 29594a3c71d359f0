#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "run/device_memory.h"
#include "run/execution.h"
#include "slipstream/run/trainer.h"

namespace slipstream {

/// Names what is warmed up together: lanes, their steps and threads, and the depth.
std::string key_of(const Plan& plan, const std::vector<LaneBinding>& lanes);

/// What to do about too little memory where nothing more is known, as a sentence.
std::string plain_remedy();

struct Trainer::Impl {
  Impl(Pipeline pipeline, Context& context, const Plan::Numerics& numerics);

  Pipeline pipeline;
  Context& context;
  Plan::Numerics numerics;
  std::vector<at::Tensor> parameters;  ///< of the training stage, those that train
  std::vector<at::Tensor> persistent;  ///< parameters and buffers of the training stage
  std::uint64_t position = 0;
  std::uint64_t loss_digest = 0;
  std::set<std::string> tuned;  ///< lanes whose threads have let cuDNN measure

  RunResult run(const Plan& plan, const RunOptions& options);
  State state() const;
  void restore(const State& state);
  std::uint64_t digest() const;
  /// For a loader that begins with the first batch.
  DataLoaderOptions loader_options(const Plan& plan, const std::optional<HostCut>& cut) const;
  std::unique_ptr<DataLoader> make_loader(DataLoaderOptions options) const;

 private:
  void place_modules();
  void place(torch::nn::Module& module);
  std::vector<DeviceStep> steps_of(const Plan& plan, const RunOptions& options);
  /// Of the transforms that are the device's; nullptr where none are.
  const FrozenStage* augmenting(const Plan& plan);
  std::vector<LaneBinding> bind(const Plan& plan, const RunOptions& options);
  /// What the loader has counted up to now.
  struct InputSoFar {
    double blocked_s = 0;
    std::vector<StepCounter> counters;
    std::uint64_t skipped_places = 0;
    JpegResult jpeg = {};
    std::optional<CacheCounters> cache = std::nullopt;
    std::optional<DiskCacheState> disk_cache = std::nullopt;
  };
  /// The loader of a run, nullptr where it needs none, and what it counted for earlier runs.
  std::pair<DataLoader*, InputSoFar> loader_for(const Plan& plan, const RunOptions& options,
                                                const std::vector<LaneBinding>& lanes);
  /// What makes images of files on the device; nullptr where none travel so.
  JpegUnpacker* jpeg_for(const Plan& plan);
  std::vector<Fields> fill_cache(const Plan& plan, const Cut& cut);
  InputSoFar input_so_far() const;
  RunResult collect(const Plan& plan, const RunOptions& options, Execution& execution,
                    std::uint64_t steps, double wall_s, const InputSoFar& input);
  /// Counts the trained steps of a whole run into position and loss digest.
  void absorb(const RunOptions& options, const Record& record);
  /// Counts what a run that failed had trained before, and says in words where it failed.
  std::string settle(const RunOptions& options, Execution& execution, const Schedule& schedule);
  /// Runs every lane but the last on its own until its memory is warm and cuDNN has tuned, and
  /// returns what PyTorch's allocator took for it: what the plan needs beyond serial.
  std::size_t warm_lanes(const Plan& plan, const std::vector<LaneBinding>& lanes);
  /// Fills `depth` slots of every lane but the last, from a batch of zeros; returns a slot's bytes.
  std::size_t fill_lanes(const Plan& plan, const std::vector<LaneBinding>& lanes);
  Fields run_frozen(const std::vector<DeviceStep>& steps, Batch batch);
  /// What fits instead, in words. Runs small batches to find out; trains nothing.
  std::string memory_advice(const Plan& plan);
  std::size_t peak_of_batch(const Plan& plan, std::size_t batch_size);
  SlabLayout layout_of(const Plan& plan, std::size_t batch_size) const;
  void apply_delays(const RunOptions& options, const std::vector<LaneBinding>& lanes,
                    ScheduleProbe& probe, ForkProbe& forks);
  /// Of the forks in the modules, and of loading.
  std::vector<Gain> gains(const std::optional<Gain>& loading) const;
  [[noreturn]] void fail(const Plan& plan, const std::string& where, std::exception_ptr error);
  void wait_for_caller(const Plan& plan);
  void synchronize() const;

  /// Outlive the loader, whose workers wait for them.
  std::vector<std::unique_ptr<Mark>> slab_marks_;
  DeviceMemory device_memory_;
  WireFormats jpeg_wire_;  ///< what jpeg_ was made for
  std::unique_ptr<JpegUnpacker> jpeg_;
  std::string augmented_from_;  ///< what augment_ was made for
  WireFormats augmented_wire_;
  std::optional<FrozenStage> augment_;
  std::optional<FrozenStage> mix_;  ///< of the operations over batches, where there are any
  std::string preparing_;           ///< which stage runs ahead of a run, for messages
  std::unique_ptr<DataLoader> loader_;
  DataLoaderOptions loader_options_;           ///< what loader_ was made for
  std::map<std::string, std::size_t> warmed_;  ///< bytes that warm_lanes took, by plan
  std::uint64_t loader_position_ = 0;
  std::string spoiled_by_;  ///< why the state is of no step; "": it is
};

}  // namespace slipstream
