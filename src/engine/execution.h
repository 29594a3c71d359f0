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
#include "engine/bound_pipeline.h"
#include "engine/device_feed.h"
#include "engine/device_slab.h"
#include "engine/lane_times.h"
#include "engine/lane_trace.h"
#include "engine/loading_gain.h"
#include "engine/run_hooks.h"
#include "engine/training_stage.h"
#include "engine/training_state.h"

namespace slipstream {

/// What retired steps left behind.
struct Record {
  std::vector<float> losses, accuracies;
  std::vector<double> step_end_s;
  std::vector<StepInput> inputs;
  std::vector<LaneResult> lanes;
  std::size_t reserved_after_warm_up_bytes = 0;
};

/// Does the lanes' work for one run.
class Execution final : public Work {
 public:
  struct Setup {
    const BoundPipeline& bound;
    const Plan& plan;
    const RunOptions& options;
    const RunHooks& hooks;
    std::vector<LaneBinding> lanes;
    DeviceFeed& feed;  ///< where the copy step takes batches
    /// The feed's counters before the run; no value: no step takes batches from it.
    const std::optional<DeviceFeed::Counted>& before;
    std::span<const Fields> cached;  ///< instead of the steps left out; may be empty
    const TrainingState& state;      ///< as it is before the run
    std::uint64_t first_step = 0;
    bool tune_first_batch = false;  ///< lanes take turns for the first batch
  };
  explicit Execution(Setup setup);
  ~Execution() override;

  bool input_ready(std::uint64_t batch) override;
  void await_input(std::uint64_t batch) override;
  void drop(std::size_t lane, std::size_t slot) override;
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override;
  void retired(std::uint64_t batch, std::span<const Mark* const> begin,
               std::span<const Mark* const> end) override;

  Record& record() { return record_; }
  std::vector<StepCounter> counters() const;
  std::optional<Gain> loading_gain() const;
  /// What failed with `batch` on `lane`: "stage 'NAME'", "input" or "progress"; "" where nothing
  /// had run.
  const std::string& failed(std::size_t lane, std::uint64_t batch) const;
  /// Whether the last step changed the state in part.
  bool is_midway() const { return train_.is_midway(); }
  /// Whether a loss was not finite.
  bool has_diverged() const { return has_diverged_; }

 private:
  struct Slot {
    DeviceSlab slab;
    std::vector<Fields> parts;  ///< per lane: what it put into this slot
    std::mutex changing;        ///< held to change slab or parts, and to look at other lanes' parts

    /// Everything of this slot that holds tensors.
    std::vector<const Fields*> own() const;
  };

  void clear_part(Slot& slot, std::size_t lane);
  Batch assemble(std::size_t lane, std::uint64_t batch, Slot& slot);
  void run_step(const DeviceStep& step, Lane& lane, std::uint64_t batch, Slot& slot, Batch& fields,
                Fields& made);
  void copy(Lane& lane, std::uint64_t batch, Slot& slot, Batch& fields);
  void simulate_cost(Lane& lane) const;
  void take_state(std::uint64_t batch);
  void hand_state_over(std::uint64_t batch);
  void take_metrics(std::uint64_t batch);
  void check_loss(std::uint64_t batch, float loss);
  void time_lanes(std::uint64_t batch, std::span<const Mark* const> begin,
                  std::span<const Mark* const> end);
  HostBatch take_input();
  DeviceSlab make_slab() const;
  void report_progress(std::uint64_t batch);
  /// Calls what was given to the run; where it throws, that is what failed.
  void call_user(const char* what, std::uint64_t batch, const std::function<void()>& call);
  std::vector<StepCounter> host_counters() const;

  Setup setup_;
  DeviceFeed* const feed_;  ///< nullptr where batches are cached
  Context& context_;
  SlotRing<Slot> slots_;
  std::size_t window_;
  TrainingStage train_;
  std::uint64_t loss_digest_;                 ///< up to the last batch that retired
  EpochLosses epoch_losses_;                  ///< the same
  std::vector<std::optional<State>> states_;  ///< behind batches in the window
  std::vector<StepInput> inputs_;             ///< of the batches in the window
  std::vector<std::string> running_;
  /// What threw first in retired(), and with which batch.
  std::optional<std::pair<std::uint64_t, std::string>> failed_retiring_;
  bool has_diverged_ = false;
  std::vector<std::vector<StepCounter>> counters_;  ///< [lane][step]
  LaneTimes times_;
  Record record_;
  LoadingGain loading_;
  std::vector<void*> streams_;       ///< CUDA: the caller's and those of the lanes
  std::optional<HostBatch> staged_;  ///< taken from the loader, not yet copied
  std::optional<LaneTrace> trace_;
  std::mutex tuning_;
  std::atomic<std::size_t> untuned_lanes_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point first_taken_ = start_;
};

}  // namespace slipstream
