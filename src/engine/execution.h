#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "engine/batch_lister.h"
#include "engine/bound_pipeline.h"
#include "engine/device_feed.h"
#include "engine/device_slab.h"
#include "engine/lane_times.h"
#include "engine/lane_trace.h"
#include "engine/loading_gain.h"
#include "engine/run_hooks.h"
#include "engine/run_memory.h"
#include "engine/training_stage.h"
#include "engine/training_state.h"

namespace slipstream {

/// The results of completed steps.
struct Record {
  std::vector<float> losses, accuracies;
  std::vector<double> step_end_s;
  std::vector<StepInput> inputs;
  std::vector<LaneResult> lanes;
  std::size_t reserved_after_warm_up_bytes = 0;
};

/// Executes the work of the lanes in one run. The Schedule calls it; with the threaded driver, each
/// lane calls from its own thread.
class Execution final : public Work {
 public:
  struct Setup {
    const BoundPipeline& bound;
    const Plan& plan;
    const RunOptions& options;
    const RunHooks& hooks;
    std::vector<LaneBinding> lanes;
    DeviceFeed& feed;  ///< source of the batches for the copy step
    /// The feed's counters before the run; no value: no step takes batches from it.
    const std::optional<DeviceFeed::Counted>& before;
    /// Batches that replace the steps before the cut; may be empty.
    std::span<const Fields> cached;
    const TrainingState& state;  ///< state before the run
    /// The slots, which must have been made for these lanes.
    RunMemory& memory;
    std::uint64_t first_step = 0;
    /// If true, lanes process their first batches one at a time, while cuDNN measures.
    bool tune_first_batch = false;
  };
  explicit Execution(Setup setup);
  ~Execution() override;

  bool input_ready(std::uint64_t batch) override;
  void await_input(std::uint64_t batch) override;
  void drop(std::size_t lane, std::size_t slot) override;
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override;
  void completed(std::uint64_t batch, std::span<const Mark* const> begin,
                 std::span<const Mark* const> end) override;

  Record& record() { return record_; }
  std::vector<StepCounter> counters() const;
  std::optional<Gain> loading_gain() const;
  /// What failed with `batch` on `lane`: "stage 'NAME'", "input" or "progress"; "" if nothing had
  /// run.
  const std::string& failed(std::size_t lane, std::uint64_t batch) const;
  /// Returns true if the last step changed the state only in part.
  bool is_midway() const { return train_.is_midway(); }
  /// Returns true if a loss was not finite.
  bool has_diverged() const { return has_diverged_; }

 private:
  /// One device step of a batch.
  struct StepRun {
    std::size_t lane, step;
    std::uint64_t batch;
    std::size_t slot;
    Batch& fields;
  };

  void clear_part(std::size_t slot, std::size_t lane);
  Batch assemble(std::size_t lane, std::uint64_t batch, Slot& slot);
  /// Returns the fields that the step set.
  Fields run_step(const StepRun& run);
  Fields run_frozen_step(const StepRun& run, const FrozenStage& stage);
  /// Returns what StepGraphs needs to know of a step, apart from its work.
  StepCall make_call(std::size_t slot);
  Fields copy(const StepRun& run);
  void simulate_cost(Lane& lane) const;
  void take_state(std::uint64_t batch);
  void hand_state_over(std::uint64_t batch);
  void take_metrics(std::uint64_t batch);
  void check_loss(std::uint64_t batch, float loss);
  void time_lanes(std::uint64_t batch, std::span<const Mark* const> begin,
                  std::span<const Mark* const> end);
  /// Makes the pipeline's lister list the batches that the loader may load now.
  void list_batches(std::uint64_t batch);
  HostBatch take_input();
  DeviceSlab make_slab() const;
  void report_progress(std::uint64_t batch);
  /// Calls a function given by the user of the run. If it throws, the run's error names `what`.
  void call_user(const char* what, std::uint64_t batch, const std::function<void()>& call);
  std::vector<StepCounter> host_counters() const;

  Setup setup_;
  DeviceFeed* const feed_;     ///< nullptr if batches are cached
  BatchLister* const lister_;  ///< nullptr if the order of batches is computed
  std::uint64_t trained_ = 0;  ///< retired batches
  Context& context_;
  RunMemory& memory_;
  SlotRing<Slot>& slots_;
  std::size_t window_;
  TrainingStage train_;
  std::uint64_t loss_digest_;                 ///< digest of losses up to the last completed batch
  EpochLosses epoch_losses_;                  ///< up to the last completed batch
  std::vector<std::optional<State>> states_;  ///< states after batches in the window
  std::vector<StepInput> inputs_;             ///< inputs of the batches in the window
  std::vector<std::string> running_;
  /// The first user function that threw in completed(), and the number of its batch.
  std::optional<std::pair<std::uint64_t, std::string>> failed_completing_;
  bool has_diverged_ = false;
  std::vector<std::vector<StepCounter>> counters_;  ///< [lane][step]
  LaneTimes times_;
  Record record_;
  LoadingGain loading_;
  std::vector<void*> streams_;       ///< CUDA streams of the caller and of all lanes
  std::optional<HostBatch> staged_;  ///< taken from the loader, not yet copied
  std::optional<LaneTrace> trace_;
  std::mutex tuning_;
  std::atomic<std::size_t> untuned_lanes_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point first_taken_ = start_;
};

}  // namespace slipstream
