#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/core/statistics.h"
#include "slipstream/core/step_counter.h"
#include "slipstream/datasets/disk_cache.h"
#include "slipstream/datasets/skipped_samples.h"
#include "slipstream/plan/loading.h"
#include "slipstream/plan/plan.h"

namespace slipstream {

/// Where one lane was busy with one batch, seconds since the run began, on the device's clock.
struct Interval {
  std::uint64_t step = 0;
  double begin_s = 0;
  double end_s = 0;
};

/// Of one step whose batch came from a loader.
struct StepInput {
  std::size_t filled = 0;  ///< batches that lay ready when it asked for its own; 0: it waited
  double blocked_s = 0;    ///< by that, on the host
  double taken_s = 0;      ///< when it had it, on the host, after the first step had its own
};

struct LaneResult {
  std::string name;
  std::vector<std::string> steps;
  double busy_s = 0;     ///< between the begin and the end of its part of each batch
  double waiting_s = 0;  ///< the rest of the run
  std::vector<Interval> last_intervals;  ///< of its last steps, at most kKeptIntervals
};
inline constexpr std::size_t kKeptIntervals = 32;

struct MemoryResult {
  std::size_t peak_bytes = 0;      ///< most allocated at once
  std::size_t reserved_bytes = 0;  ///< held by PyTorch's allocator at the end
  std::size_t reserved_after_warm_up_bytes = 0;
  std::size_t predicted_extra_bytes = 0;  ///< what the plan was predicted to need beyond serial
};

/// Share of the largest possible gain that overlapping reached: (Ts - Tp) / (Ts - max over lanes of
/// the lane alone), T = seconds a step.
struct Overlap {
  Measured efficiency;
  Measured serial_steps_per_second;
  std::vector<std::pair<std::string, Measured>> alone_steps_per_second;  ///< per lane
};

/// What doing things at the same time gains, as how many times as fast as one after the other. n =
/// 0 where it was not measured.
struct Gain {
  std::string of;      ///< "loading", or a ForkJoin: "STAGE" or "STAGE.NAME OF THE MODULE"
  Measured predicted;  ///< at most: the sum of the parts' times over the longest
  Measured measured;
  std::string kept;    ///< of a ForkJoin: "streams" or "one stream"
  std::string reason;  ///< for that
};

/// Where images traveled as JPEG files (Wire::jpeg).
struct JpegResult {
  std::uint64_t images = 0;  ///< that came to the device
  std::uint64_t on_cpu = 0;  ///< of these, decoded by the CPU: the GPU takes no such files
  bool engines = false;      ///< whether the GPU's JPEG engines decode, or CUDA kernels
};

/// What a run did. Filled by Trainer::run.
struct RunResult {
  Plan plan;
  std::uint64_t first_step = 0;
  std::uint64_t steps = 0;
  bool interrupted = false;
  double wall_s = 0;
  Measured steps_per_second;       ///< without warm-up, and steps that batches filled ahead fed
  std::vector<float> losses;       ///< one a step
  std::vector<float> accuracies;   ///< one a step, share of labels predicted
  std::vector<double> step_end_s;  ///< end of each step, seconds since the run began
  std::uint64_t digest = 0;        ///< of all losses since the trainer was made, weights, optimizer
  double input_wait_share = 0;     ///< share of the run that the device waited for input
  std::vector<StepInput> inputs;   ///< one a step; empty where no loader ran
  std::vector<StepCounter> counters;
  std::vector<LaneResult> lanes;
  MemoryResult memory;
  SkippedSamples skipped;              ///< those of batches that are filled ahead included
  std::optional<CacheCounters> cache;  ///< where the loader has one; such batches included
  /// Where the data set is disk_cached() itself, not one made of such: what all readers of it did.
  std::optional<DiskCacheState> disk_cache;
  std::optional<Overlap> overlap;
  /// Of the ForkJoins of the pipeline's modules; and of loading beside the longest lane, both of
  /// the same 16 to 32 steps, the last that tell, where the run had 32, with the times of this run,
  /// which are longer than alone where both need the same cores.
  std::vector<Gain> gains;
  std::optional<JpegResult> jpeg;  ///< where images traveled as JPEG files
  /// Fields of batches cached on the device that steps wrote into (RunOptions::check_cache).
  std::vector<std::string> changed_fields;
};

/// What a run tells while it goes on, from the thread that feeds the first lane.
struct Progress {
  std::uint64_t step = 0;   ///< steps done in this run
  std::uint64_t steps = 0;  ///< steps to do
  double elapsed_s = 0;
  float loss = 0;
  double input_wait_share = 0;
  double blocked_s = 0;                 ///< the host on the loader, so far
  double busy_s = 0;                    ///< the last lane, with the steps done
  std::optional<StepInput> input = {};  ///< of this step, where a loader runs
  /// What the loader has counted since this part began; empty where none runs. Not to be kept.
  std::function<std::vector<StepCounter>()> host_counters = {};
  /// Where a run has several parts (run_auto): `elapsed_s` when this one began. All but steps,
  /// elapsed_s and loss is of this part alone.
  double part_began_s = 0;
  std::uint64_t part_ends = 0;  ///< `step` at its end; 0 where a run is one
  /// The lane that run_auto measures alone just now: `step` stands still meanwhile, and all but
  /// steps, elapsed_s and loss is empty. "": this is a step of the training.
  std::string measuring = {};
};

/// Which plan `auto` kept, and why.
struct AutoChoice {
  std::string kept;  ///< "serial" or "pipelined"
  std::string reason;
  Measured serial;     ///< steps/s
  Measured pipelined;  ///< steps/s
};

}  // namespace slipstream
