#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/schedule.h"
#include "run/device_slab.h"
#include "run/lane_trace.h"
#include "run/loading_gain.h"
#include "slipstream/run/context.h"
#include "slipstream/run/pipeline.h"
#include "slipstream/run/trainer.h"

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
    const Pipeline& pipeline;
    Context& context;
    const Plan& plan;
    const RunOptions& options;
    std::vector<LaneBinding> lanes;
    DataLoader* loader = nullptr;                 ///< where the copy step takes batches
    std::span<const StepCounter> counted_before;  ///< by the loader, in earlier runs
    JpegUnpacker* jpeg = nullptr;                 ///< where its images travel as files
    /// One a slab of the loader; they live as long as it does, for its workers wait for them.
    std::span<const std::unique_ptr<Mark>> slab_marks;
    std::span<const at::Tensor> parameters;  ///< of the training stage
    bool has_buffers = false;                ///< whether the training stage has
    std::span<const Fields> cached;          ///< instead of the steps left out; may be empty
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
  bool is_midway() const { return is_midway_; }
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
  struct Metrics {
    float loss;
    std::int64_t correct;
    std::int64_t labels;
  };

  void clear_part(Slot& slot, std::size_t lane);
  Batch assemble(std::size_t lane, std::uint64_t batch, Slot& slot);
  void run_step(const DeviceStep& step, Lane& lane, std::uint64_t batch, Slot& slot, Batch& fields,
                Fields& made);
  void copy(Lane& lane, std::uint64_t batch, Slot& slot, Batch& fields);
  void pay(Lane& lane);
  void train(std::uint64_t batch, Batch& fields);
  void keep_metrics(std::uint64_t batch, const LossValue& value);
  void take_metrics(std::uint64_t batch);
  void check_loss(std::uint64_t batch, float loss);
  void time_lanes(std::uint64_t batch, std::span<const Mark* const> begin,
                  std::span<const Mark* const> end);
  void key_generator(std::uint64_t batch) const;
  HostBatch take_input();
  Metrics& metrics_of(std::uint64_t batch);
  void report_progress(std::uint64_t batch);
  std::vector<StepCounter> host_counters() const;

  Setup setup_;
  SlotRing<Slot> slots_;
  std::size_t window_;
  std::pmr::vector<Metrics> metrics_;
  std::vector<StepInput> inputs_;  ///< by batch, as metrics_
  std::vector<std::string> running_;
  /// What threw first in retired(), and with which batch.
  std::optional<std::pair<std::uint64_t, std::string>> failed_retiring_;
  bool is_midway_ = false;  ///< the training stage may have changed the state for half of a step
  bool has_diverged_ = false;
  std::vector<std::vector<StepCounter>> counters_;  ///< [lane][step]
  std::vector<const Mark*> previous_end_;
  std::vector<double> lane_time_s_;
  Record record_;
  LoadingGain loading_;
  void* callers_stream_ = nullptr;
  std::optional<HostBatch> staged_;  ///< taken from the loader, not yet copied
  std::optional<LaneTrace> trace_;
  std::mutex tuning_;
  std::atomic<std::size_t> untuned_lanes_;
  double blocked_before_s_ = 0;  ///< by the loader in earlier runs
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point first_taken_ = start_;
};

}  // namespace slipstream
