#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipstream/core/statistics.h"
#include "slipstream/engine/plan.h"

namespace slipstream {

struct PipelineModel;

/// What can hold a pipeline up. docs/doctor.md says how it is found.
enum class Bottleneck : std::uint8_t {
  gpu,                  ///< the device is busy: input keeps up with it
  copy,                 ///< copying batches to the device
  transforms,           ///< transforms of samples and collating, on loader threads
  decode,               ///< making pixels of file bytes
  read,                 ///< getting at file bytes
  launch_overhead,      ///< the host enqueues the device's work more slowly than the device does it
  lock_contention,      ///< workers wait for each other
  memory_bandwidth,     ///< workers wait for memory
  none,                 ///< input keeps up, and the device is not full
  not_enough_evidence,  ///< the intervals are too wide to say
};
/// The enumerator's name, such as "read".
std::string_view to_string(Bottleneck bottleneck);
/// The bottleneck of that name. Throws Refused for another name.
Bottleneck bottleneck_named(std::string_view name);
/// The group of a loader's host step by its index: read for 0, decode for 1, transforms for
/// all others.
Bottleneck host_step_group(std::size_t index);

/// How much work a machine does at once.
struct MachineCapacity {
  /// Work of all cores together, in units of the work of a thread that has the machine to itself.
  double cores = 1;
  /// Reading from memory by all cores together, in units of what such a thread reads.
  double memory_streams = 1;
  double copy_bytes_per_second = 4e9;  ///< by one thread, between blocks larger than caches
};
/// One level of the ladder: a measurement of the pipeline in which everything up to one point comes
/// from a cache.
struct Level {
  std::string name;       ///< "device batch", "host batch, pinned", ..., "nothing cached"
  std::string after;      ///< the step whose results are cached; "" for nothing cached
  std::size_t items = 0;  ///< samples or batches in the cache
  std::optional<Measured> with_training;  ///< steps/s
  std::optional<Measured> loader_alone;   ///< steps/s that the loader makes while nobody trains
  std::string error;                      ///< why `with_training` is missing; "" otherwise
  std::string loader_alone_error;         ///< why `loader_alone` is missing; "" otherwise
};

/// What one host step costs, sample by sample.
struct HostStepCost {
  std::string name;
  Bottleneck group = Bottleneck::transforms;  ///< read, decode or transforms
  std::vector<float> wall_s;                  ///< for single samples, with one worker alone
  std::vector<float> cpu_s;                   ///< for the same samples, the worker's CPU time
  double wall_of_all_s = 0;  ///< mean for a sample with all workers while nobody trains
  double cpu_of_all_s = 0;   ///< the same workers' CPU time for a sample, mean
  double bytes = 0;          ///< bytes that it makes of a sample
  bool is_random = false;    ///< whether it draws random numbers
};

/// What one device step or lane costs when it works alone on a cached batch.
struct DeviceCost {
  std::string name;       ///< "copy", a stage, the training stage, or the steps of a lane
  Measured seconds;       ///< for a batch
  double enqueue_s = 0;   ///< time that the host takes to enqueue it
  std::size_t bytes = 0;  ///< bytes that it moves or makes
};

/// Another form in which a field could travel to the device, with fewer bytes than its own.
struct WireChoice {
  std::string field;
  Wire wire = Wire::plain;
  double less = 0;  ///< share of the bytes copied for a batch that it saves; unused for Wire::jpeg
  std::optional<Measured> decode_s = {};  ///< for Wire::jpeg: decoding a batch on the device alone
  /// For Wire::jpeg: the first transform that the device then has to do, where the plan has it done
  /// on the host; "" for none.
  std::string on_device_from = {};
};

/// Facts that decide which changes can be made and what they would cost. Measured values are absent
/// where they were not measured.
struct Situation {
  Plan plan;
  bool on_gpu = false;
  unsigned cores = 1;  ///< cores that this process may use
  std::uint64_t free_memory_bytes = 0;
  std::uint64_t samples = 0;    ///< number of samples in the data set
  std::string last_fixed_step;  ///< the last host step before the first random one
  /// Whether decoding makes no more of an image than the first transform reads. Images that are
  /// cached after decoding are whole.
  bool decodes_parts = false;
  std::string on_device_from;  ///< the first transform that the device could do; "": none
  /// Seconds for a batch of these transforms on the device alone.
  std::optional<Measured> augment_s;
  std::string crop;               ///< a crop after transforms that need no more than it; "": none
  std::string crop_moved_before;  ///< the first of these transforms
  bool has_frozen_stage = false;
  bool frozen_input_is_fixed = false;      ///< whether nothing ahead of that stage is random
  std::vector<std::string> unused_fields;  ///< fields that are copied although no stage reads them
  std::vector<WireChoice> wires;           ///< forms that the plan does not use, on a GPU
};

/// How busy the device and the cores were while the whole pipeline was measured.
struct Utilization {
  std::optional<double> sm_activity;      ///< share of cycles in which a multiprocessor had a warp
  std::optional<double> dram_use;         ///< share of the peak bandwidth of device memory
  std::optional<double> gpu_utilization;  ///< share of time with any kernel; it says little
  std::string note;                       ///< why one of these is missing
  double cpu_share = 0;                   ///< share of the cores that this process may use
  double read_bytes_per_second = 0;       ///< NaN: not known
};

/// All that was measured of a pipeline.
struct Observations {
  std::size_t batch_size = 1;
  unsigned workers = 1;   ///< of the loader; 0: the thread that trains makes the samples, too
  std::size_t slabs = 4;  ///< batches for which the loader has memory
  /// That each worker brings with it; 0: `slabs` is all there are.
  std::size_t slabs_per_worker = 0;
  MachineCapacity capacity;
  std::vector<Level> levels;  ///< from the device batch to nothing cached
  std::vector<HostStepCost> host;
  Measured rate_of_all_workers;      ///< samples/s of all workers while nobody trains
  Measured rate_of_one_worker;       ///< samples/s of one worker
  Measured rate_of_half_of_workers;  ///< samples/s of workers / 2; n = 0: not measured
  std::vector<DeviceCost> device;
  double line_cpu_s = 0;    ///< CPU time that a step takes on the thread that drives training
  Utilization utilization;  ///< measured with nothing cached
  Situation situation;
  std::vector<std::string> warnings;  ///< what makes the figures less sure
};

/// Something to change, with what it is predicted to give.
struct Change {
  std::string id;           ///< "num_workers", "cache", "device_transforms", ...
  std::string description;  ///< what to change, in a sentence
  std::string action;       ///< a command or a change of code; "" where `apply` does it
  std::string step = {};    ///< the host step that it is about; "" for none
  std::size_t number = 0;   ///< of workers, batches, reads or cores that it asks for; 0: of nothing
  Bottleneck bottleneck = Bottleneck::none;
  Measured predicted;           ///< steps/s after the change
  Measured gain;                ///< `predicted` over the rate of the pipeline as it is, unit "1"
  bool is_upper_bound = false;  ///< true: the most it can give, with the cost taken away
  std::function<void(Plan&)> apply;  ///< changes a plan; empty where a plan cannot express it
  std::function<void(PipelineModel&)> model;  ///< makes the change in the model
};

/// One host step's row in the table of costs. Costs are those of one sample.
struct CostRow {
  std::string name;
  Bottleneck group = Bottleneck::transforms;
  Measured wall_ms;
  Measured cpu_ms;
  double bytes = 0;              ///< bytes that it makes of a sample
  double variation = 0;          ///< standard deviation of the time over its mean
  double p99_ms = 0;             ///< 99th percentile of the time
  double locked = 0;             ///< share of the step that only one worker at a time can be in
  bool is_memory_bound = false;  ///< whether workers wait for memory in it
  Measured without;              ///< steps/s if it cost nothing
};

/// What holds a pipeline up, and what would help.
struct Diagnosis {
  std::shared_ptr<const PipelineModel> model;  ///< the model that explains what was measured
  Bottleneck verdict = Bottleneck::not_enough_evidence;
  std::string reason;  ///< why, in a sentence
  /// Most gain first; empty where the device does not wait for input.
  std::vector<Bottleneck> bottlenecks;
  Measured ceiling;             ///< steps/s with batches on the device: input costs nothing
  Measured rate;                ///< steps/s with nothing cached
  Measured share;               ///< rate / ceiling
  std::vector<CostRow> costs;   ///< for each host step
  std::vector<Change> changes;  ///< most gain first
  double model_error = 0;       ///< relative error of the simulated rates against the measured ones
  /// Cores needed to keep the device busy: those of the loader, and training's own where it would
  /// take them from workers.
  std::optional<double> cores_needed;
};

/// Finds what holds the pipeline up and predicts what changes would give. docs/doctor.md says how.
Diagnosis diagnose(const Observations& observed);

/// Whether a pipeline delivers at least a share of its ceiling.
enum class ShareGate : std::uint8_t {
  passes,
  fails,     ///< the whole interval of the share lies below
  undecided  ///< the share lies below but not its whole interval, or there is too little evidence
};
/// Judges whether the pipeline delivers the share `least` of its ceiling. It is undecided where the
/// share lies below `least` and its interval does not, where nothing was measured, and where the
/// interval begins below `least` and the verdict is not_enough_evidence.
ShareGate judge_share(const Diagnosis& diagnosis, double least);

/// A cost that a host step is supposed to have.
struct AssumedCost {
  static constexpr double kMostSeconds = 3600;  ///< the largest value of `seconds`
  std::string step;                             ///< the name of the step
  double seconds = 0;                           ///< for a sample
};
/// Predicts what the pipeline would give if host steps had these costs, all together. Throws
/// Refused for a step that is not there, and for a time that is not from 0 to
/// AssumedCost::kMostSeconds. REQUIRES: diagnose() returned `diagnosis`.
Change what_if(const Observations& observed, const Diagnosis& diagnosis,
               const std::vector<AssumedCost>& supposed);

/// A plan with changes applied.
struct Remedy {
  Plan plan;
  std::vector<std::string> changes;  ///< Change::id of those applied
  Measured predicted;                ///< steps/s with all of them
};
/// Applies the changes that a plan can express to the plan that was examined, one after the other,
/// as long as one still gains. REQUIRES: diagnose() returned `diagnosis`.
Remedy find_remedy(const Observations& observed, const Diagnosis& diagnosis);

/// What a changed plan was predicted to give, and what it gave.
struct Outcome {
  Plan plan;
  std::vector<std::string> changes;  ///< Change::what of those applied
  Measured before;                   ///< steps/s
  Measured predicted;                ///< steps/s
  Measured measured;                 ///< steps/s
  std::string note = {};             ///< what makes `measured` less sure; "" for nothing
};

}  // namespace slipstream
