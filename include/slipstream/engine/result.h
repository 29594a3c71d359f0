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

/// The time during which one lane was busy with one batch, in seconds since the start of the run,
/// on the device's clock.
struct Interval {
  std::uint64_t step = 0;  ///< number of the batch, counted through all epochs
  double begin_s = 0;
  double end_s = 0;
};

/// How one step got its batch from a loader.
struct StepInput {
  /// Batches that were ready when the step requested its own; 0: it waited.
  std::size_t filled = 0;
  double blocked_s = 0;  ///< how long the host waited for the batch
  /// When the host received it, in seconds since the first step received its batch.
  double taken_s = 0;
};

/// What one lane did in a run.
struct LaneResult {
  std::string name;
  std::vector<std::string> steps;        ///< the device steps on the lane
  double busy_s = 0;                     ///< total time from begin to end of its part of each batch
  double waiting_s = 0;                  ///< the rest of the run
  std::vector<Interval> last_intervals;  ///< intervals of the last steps, at most kKeptIntervals
};
/// The number of steps of which LaneResult keeps the intervals.
inline constexpr std::size_t kKeptIntervals = 32;

/// Memory of the device. On a CPU, `peak_bytes` is the largest resident memory of the process, and
/// the reserved bytes are 0.
struct MemoryResult {
  std::size_t peak_bytes = 0;                    ///< largest number of bytes allocated at once
  std::size_t reserved_bytes = 0;                ///< held by PyTorch's allocator at the end
  std::size_t reserved_after_warm_up_bytes = 0;  ///< held by it after the warm-up steps
  std::size_t predicted_extra_bytes = 0;  ///< predicted need of the plan in addition to serial
};

/// How much of the largest possible gain was reached by overlapping.
struct Overlap {
  Measured efficiency;  ///< reached share of that gain, see overlap_efficiency()
  Measured serial_steps_per_second;
  /// Steps/s of each lane alone, by name.
  std::vector<std::pair<std::string, Measured>> alone_steps_per_second;
};

/// The speedup of running parts at the same time instead of one after the other. A value with n = 0
/// was not measured.
struct Gain {
  std::string part;    ///< "loading", or the path of a ForkJoin: "STAGE" or "STAGE.MODULE"
  Measured predicted;  ///< the largest possible speedup: sum of the parts' times / longest time
  Measured measured;
  std::string chosen;  ///< the choice for a ForkJoin: "streams" or "one stream"
  std::string reason;  ///< reason for the choice
};

/// How images that traveled as JPEG files (Wire::jpeg) were decoded.
struct JpegResult {
  std::uint64_t images = 0;  ///< images that were copied to the device
  std::uint64_t on_cpu = 0;  ///< images that the CPU decoded because the GPU does not support them
  bool engines = false;      ///< true: the GPU's JPEG engines decode; false: CUDA kernels do
};

/// What a run under a plan with CUDA graphs did (Plan::Schedule::graphs).
struct GraphCounts {
  std::uint64_t graphs = 0;   ///< graphs that were recorded
  std::uint64_t replays = 0;  ///< executions of a device step as a graph
  /// Graphs that were freed because a batch was in other memory than the graph reads or writes, for
  /// example because a stage kept a tensor. The step is then recorded again.
  std::uint64_t renewed = 0;
  /// Sentences on the device steps that run without graphs, with the reason.
  std::vector<std::string> warnings = {};

  void add(const GraphCounts& other);
};

/// Result of Trainer::run().
struct RunResult {
  Plan plan;
  std::uint64_t first_step = 0;  ///< position at the beginning
  std::uint64_t steps = 0;       ///< steps done
  bool interrupted = false;      ///< whether it ended early
  double wall_s = 0;             ///< duration of the run
  /// The rate, without the warm-up steps and without steps whose batches were prefetched before the
  /// run reached its steady state.
  Measured steps_per_second;
  std::vector<float> losses;          ///< for each step
  std::vector<float> accuracies;      ///< for each step, the share of correctly predicted labels
  std::vector<double> step_end_s;     ///< end of each step, seconds since the run began
  std::uint64_t digest = 0;           ///< Trainer::digest() at the end; 0 unless RunOptions::digest
  double input_wait_share = 0;        ///< share of the run during which the device waited for input
  std::vector<StepInput> inputs;      ///< for each step; empty if no loader ran
  std::vector<StepCounter> counters;  ///< for each host step and device step
  std::vector<LaneResult> lanes;
  MemoryResult memory;
  SkippedSamples skipped;  ///< bad samples, including those in prefetched batches
  /// Counters of the cache in memory, including its use for prefetched batches; no value if the
  /// loader has no cache.
  std::optional<CacheCounters> cache;
  /// State of the cache on disk, counting all of its readers; no value unless the data set was made
  /// by disk_cached().
  std::optional<DiskCacheState> disk_cache;
  /// No value unless run_auto() measured serial and each lane alone.
  std::optional<Overlap> overlap;
  /// One entry for each ForkJoin in the pipeline's modules. A run of at least 32 steps may have an
  /// entry for the overlap of loading with the longest lane. Both times of that entry are from the
  /// same 16 to 32 steps, the last ones that give a valid measurement. They were measured during
  /// this run, so they are longer than the times alone if both need the same cores.
  std::vector<Gain> gains;
  std::optional<JpegResult> jpeg;     ///< no value if no images traveled as JPEG files
  std::optional<GraphCounts> graphs;  ///< no value if the plan has no CUDA graphs
  /// Names of the fields of batches cached on the device that a step wrote into. Filled only with
  /// RunOptions::check_cache.
  std::vector<std::string> changed_fields;
};

/// Progress of a run, reported after each step on the thread that feeds the first lane.
struct Progress {
  std::uint64_t step = 0;       ///< steps done in this run
  std::uint64_t steps = 0;      ///< steps in this run
  double elapsed_s = 0;         ///< seconds since the run began
  float loss = 0;               ///< loss of this step
  double input_wait_share = 0;  ///< share of the time during which the device waited for input
  double blocked_s = 0;         ///< total time that the host has waited for the loader
  double busy_s = 0;            ///< total time that the last lane was busy
  std::optional<StepInput> input = {};  ///< how this step got its batch; no value if no loader runs
  /// Returns the loader's counters since this part of the run began; empty if no loader runs. May
  /// only be called during the progress call.
  std::function<std::vector<StepCounter>()> host_counters = {};
  /// If a run has several parts (run_auto()), the value of `elapsed_s` when this part began. All
  /// members except steps, elapsed_s and loss refer to this part only.
  double part_began_s = 0;
  std::uint64_t part_ends = 0;  ///< `step` at the end of this part; 0 if the run has only one part
  /// The lane that run_auto() is measuring alone. During this measurement `step` does not change,
  /// and all members except steps, elapsed_s and loss are empty. "" means that this is a training
  /// step.
  std::string measuring = {};
};

/// Which plan run_auto() chose, and why.
struct AutoChoice {
  std::string chosen;   ///< "serial", "pipelined" or "graph"
  std::string reason;   ///< reason, as text
  Measured serial;      ///< steps/s; n = 0: not measured
  Measured pipelined;   ///< steps/s; n = 0: not measured
  Measured graph = {};  ///< steps/s; n = 0: not measured
};

}  // namespace slipstream
