#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/core/statistics.h"
#include "slipstream/core/step_counter.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/datasets/disk_cache.h"
#include "slipstream/engine/plan.h"
#include "slipstream/loader/loading.h"

namespace slipstream {

/// The time in which one lane was busy with one batch, in seconds since the run began, on the
/// device's clock.
struct Interval {
  std::uint64_t step = 0;  ///< number of the batch, counted through all epochs
  double begin_s = 0;
  double end_s = 0;
};

/// How one step got its batch from a loader.
struct StepInput {
  std::size_t filled = 0;  ///< batches that lay ready when the step asked for its own; 0: it waited
  double blocked_s = 0;    ///< how long the host waited for the batch
  double taken_s = 0;      ///< when the host had it, in seconds since the first step had its own
};

/// What one lane did in a run.
struct LaneResult {
  std::string name;
  std::vector<std::string> steps;  ///< the device steps on the lane
  double busy_s = 0;     ///< time from the begin to the end of its part of each batch, in all
  double waiting_s = 0;  ///< the rest of the run
  std::vector<Interval> last_intervals;  ///< intervals of its last steps, at most kKeptIntervals
};
/// The number of steps of which LaneResult keeps the intervals.
inline constexpr std::size_t kKeptIntervals = 32;

/// The memory of the device. On a CPU, `peak_bytes` is the largest resident memory of the process,
/// and the reserved bytes are 0.
struct MemoryResult {
  std::size_t peak_bytes = 0;                    ///< most that was allocated at once
  std::size_t reserved_bytes = 0;                ///< held by PyTorch's allocator at the end
  std::size_t reserved_after_warm_up_bytes = 0;  ///< held by it after the first, warming steps
  std::size_t predicted_extra_bytes = 0;  ///< what the plan was predicted to need beyond serial
};

/// How much of the largest possible gain overlapping reached.
struct Overlap {
  Measured efficiency;  ///< the share that was reached, overlap_efficiency()
  Measured serial_steps_per_second;
  std::vector<std::pair<std::string, Measured>> alone_steps_per_second;  ///< by lane
};

/// What doing things at the same time gains: how many times as fast it is as doing one after the
/// other. A value with n = 0 was not measured.
struct Gain {
  std::string part;    ///< "loading", or a ForkJoin: "STAGE" or "STAGE.NAME OF THE MODULE"
  Measured predicted;  ///< the most that is possible: the sum of the parts' times over the longest
  Measured measured;
  std::string chosen;  ///< for a ForkJoin: "streams" or "one stream"
  std::string reason;  ///< why that was chosen
};

/// How images that traveled as JPEG files (Wire::jpeg) were decoded.
struct JpegResult {
  std::uint64_t images = 0;  ///< images that came to the device
  std::uint64_t on_cpu = 0;  ///< images that the CPU decoded, for the GPU does not read them
  bool engines = false;      ///< true: the GPU's JPEG engines decode; false: CUDA kernels do
};

/// What a run did, as Trainer::run() returns it.
struct RunResult {
  Plan plan;
  std::uint64_t first_step = 0;  ///< position at the beginning
  std::uint64_t steps = 0;       ///< steps done
  bool interrupted = false;      ///< whether it ended early
  double wall_s = 0;             ///< how long it took
  /// The rate without the first, warming steps, and without steps whose batches had been filled
  /// while the run was not yet at its steady pace.
  Measured steps_per_second;
  std::vector<float> losses;          ///< for each step
  std::vector<float> accuracies;      ///< for each step, the share of labels predicted
  std::vector<double> step_end_s;     ///< end of each step, seconds since the run began
  std::uint64_t digest = 0;           ///< Trainer::digest() at the end; 0 unless RunOptions::digest
  double input_wait_share = 0;        ///< share of the run in which the device waited for input
  std::vector<StepInput> inputs;      ///< for each step; empty where no loader ran
  std::vector<StepCounter> counters;  ///< for each host step and device step
  std::vector<LaneResult> lanes;
  MemoryResult memory;
  SkippedSamples skipped;  ///< bad samples, those of batches filled ahead included
  /// The cache in memory, with batches filled ahead; no value: the loader has none.
  std::optional<CacheCounters> cache;
  /// The cache on disk, where the data set itself was made by disk_cached(): what all its readers
  /// did.
  std::optional<DiskCacheState> disk_cache;
  std::optional<Overlap> overlap;  ///< no value unless run_auto() measured serial and lanes alone
  /// One for each ForkJoin of the pipeline's modules. In runs of 32 steps and more there may be one
  /// for loading beside the longest lane, from the same 16 to 32 steps for both, the last that
  /// tell. Its times are those of this run, which are longer than alone where both need the same
  /// cores.
  std::vector<Gain> gains;
  std::optional<JpegResult> jpeg;  ///< no value: no images traveled as JPEG files
  /// The fields of batches cached on the device that steps wrote into (RunOptions::check_cache).
  std::vector<std::string> changed_fields;
};

/// What a run tells after each step, on the thread that feeds the first lane.
struct Progress {
  std::uint64_t step = 0;               ///< steps done in this run
  std::uint64_t steps = 0;              ///< steps to do
  double elapsed_s = 0;                 ///< since the run began
  float loss = 0;                       ///< loss of this step
  double input_wait_share = 0;          ///< share of the time in which the device waited for input
  double blocked_s = 0;                 ///< how long the host has waited for the loader, in all
  double busy_s = 0;                    ///< how long the last lane was busy with the steps done
  std::optional<StepInput> input = {};  ///< how this step got its batch; no value: no loader runs
  /// Returns what the loader has counted since this part of the run began; empty where none runs.
  /// It must be called during the progress call, if at all.
  std::function<std::vector<StepCounter>()> host_counters = {};
  /// Where a run has several parts (run_auto()): `elapsed_s` when this part began. All members but
  /// steps, elapsed_s and loss are of this part alone.
  double part_began_s = 0;
  std::uint64_t part_ends = 0;  ///< `step` at the end of this part; 0 where a run is one part
  /// The lane that run_auto() is measuring alone. Meanwhile `step` stands still, and all members
  /// but steps, elapsed_s and loss are empty. "": this is a step of the training.
  std::string measuring = {};
};

/// Which plan run_auto() chose, and why.
struct AutoChoice {
  std::string chosen;  ///< "serial" or "pipelined"
  std::string reason;  ///< why, in words
  Measured serial;     ///< steps/s; n = 0: not measured
  Measured pipelined;  ///< steps/s; n = 0: not measured
};

}  // namespace slipstream
