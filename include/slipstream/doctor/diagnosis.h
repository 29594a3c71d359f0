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

// All functions of this header compute on the host from their arguments alone, except that
// Change::apply and Change::model modify the object passed to them. They use no device and no
// stream, and any threads may call them at the same time.

/// The bottleneck of a pipeline. docs/doctor-method.md describes how it is found, docs/doctor.md
/// what to do about it.
enum class Bottleneck : std::uint8_t {
  device,               ///< the device that trains is busy, and input keeps up with it
  copy,                 ///< copying batches to the device
  transforms,           ///< transforms of samples, on loader threads
  collate,              ///< collating samples into batches, and other work on whole batches
  part,                 ///< a part of the data set's code that the user named
  decode,               ///< decoding file bytes to pixels
  read,                 ///< reading file bytes
  launch_overhead,      ///< the host enqueues work more slowly than the device executes it
  lock_contention,      ///< workers wait for each other
  memory_bandwidth,     ///< workers wait for memory
  none,                 ///< input keeps up, but the device is less than half busy
  not_enough_evidence,  ///< the measurements do not allow a verdict
};
/// Returns the enumerator's name, for example "read". Throws Error for a value that is not an
/// enumerator. The characters are static, so the view stays valid.
std::string_view to_string(Bottleneck bottleneck);
/// Returns the bottleneck with this name. Throws Refused for an unknown name and lists the known
/// ones.
Bottleneck bottleneck_named(std::string_view name);
/// Returns the group of host step `index` of a loader that has `steps` of them: `read` for index 0,
/// `decode` for index 1, `collate` for the last one, and `transforms` for all others.
Bottleneck host_step_group(std::size_t index, std::size_t steps);
/// Returns the group of a part of a data set's code that has the name `name`: the group with this
/// name for "read", "decode", "transforms" and "collate", otherwise `part`.
Bottleneck part_group(std::string_view name);

/// How much work a machine can do at the same time.
struct MachineCapacity {
  /// Work of all cores together, divided by the work of one thread that has the machine to itself.
  double cores = 1;
  /// Rate at which all cores together read from memory, divided by the rate of one such thread.
  double memory_streams = 1;
  double copy_bytes_per_second = 4e9;  ///< of one thread, between blocks larger than CPU caches
};
/// One cache level: a measurement of the pipeline in which a cache replaces all steps up to a
/// certain one.
struct Level {
  std::string name;       ///< "device batch", "host batch, pinned", ..., "nothing cached"
  std::string after;      ///< the step whose results are cached; "" for nothing cached
  std::size_t items = 0;  ///< samples or batches in the cache
  std::optional<Measured> with_training;  ///< steps/s
  std::optional<Measured> loader_alone;   ///< steps/s of the loader while no training runs
  std::string error;                      ///< why `with_training` is missing; "" otherwise
  std::string loader_alone_error;         ///< why `loader_alone` is missing; "" otherwise
};

/// Cost of one host step, sample by sample.
struct HostStepCost {
  std::string name;
  /// read, decode, transforms, collate or part
  Bottleneck group = Bottleneck::transforms;
  std::vector<float> wall_s;  ///< wall time of each measured sample, with one worker alone
  std::vector<float> cpu_s;   ///< the worker's CPU time for the same samples
  double wall_of_all_s = 0;   ///< mean of a sample with all workers while no training runs
  /// Time of each measured sample that no CPU time was used in, with all workers. Together with the
  /// same time of one worker, it shows whether workers wait for each other.
  std::vector<float> waiting_of_all_s = {};
  double cpu_of_all_s = 0;  ///< mean CPU time of a sample with all workers
  double bytes = 0;         ///< size of the step's result for one sample
  bool is_random = false;   ///< whether the step uses random numbers
  /// Whether the step is a part of the code of a later step. No cache can contain its results.
  bool is_inside = false;
};

/// Cost of one device step or lane that runs alone on a cached batch.
struct DeviceCost {
  std::string name;       ///< "copy", a stage, the training stage, or the steps of a lane
  Measured seconds;       ///< time of the step for one batch
  double enqueue_s = 0;   ///< time that the host needs to enqueue the step for a batch
  std::size_t bytes = 0;  ///< bytes that the step copies, or the size of its result
};

/// A wire format in which a field would be copied with fewer bytes than in its present one.
struct WireChoice {
  std::string field;
  Wire wire = Wire::plain;
  double less = 0;  ///< share of a batch's copied bytes that is saved; unused for Wire::jpeg
  /// For Wire::jpeg: seconds that the device needs to decode a batch while nothing else runs.
  std::optional<Measured> decode_s = {};
  /// For Wire::jpeg: the first transform that would have to move from the host to the device, or
  /// "" if none would.
  std::string on_device_from = {};
};

/// Facts that decide which changes are possible and what they cost. A measured value is empty if
/// it was not measured.
struct Situation {
  Plan plan;
  bool on_gpu = false;
  bool has_worker_processes = false;  ///< whether workers are processes instead of threads
  bool is_python_loop = false;        ///< whether the user gives options to a function in Python
  unsigned cores = 1;                 ///< cores that this process may use
  std::uint64_t free_memory_bytes = 0;
  std::uint64_t samples = 0;    ///< number of samples in the data set
  std::string last_fixed_step;  ///< the last host step before the first random one
  /// Whether the loader decodes only the part of an image that the first transform reads. A level
  /// that caches decoded samples decodes whole images instead.
  bool decodes_parts = false;
  std::string on_device_from;  ///< the first transform that the device could run; "": none
  /// Seconds for these transforms of a batch, alone on the device.
  std::optional<Measured> augment_s;
  std::string crop;  ///< a crop that can be moved before other transforms unchanged; "": none
  std::string crop_moved_before;  ///< the first of the transforms that `crop` can be moved before
  bool has_frozen_stage = false;
  bool frozen_input_is_fixed = false;      ///< whether nothing before the frozen stages is random
  std::vector<std::string> unused_fields;  ///< fields that are copied although no stage reads them
  std::vector<WireChoice> wires;  ///< smaller formats that the plan does not use; empty on a CPU
};

/// How busy the device and the cores were while the whole pipeline was measured.
struct Utilization {
  std::optional<double> sm_activity;  ///< share of cycles in which a multiprocessor had a warp
  std::optional<double> dram_use;     ///< share of the peak bandwidth of device memory
  /// Share of time in which any kernel ran, even a small one.
  std::optional<double> gpu_utilization;
  std::string note;                  ///< why one of these is missing
  double cpu_share = 0;              ///< used share of the cores that this process may use
  double read_bytes_per_second = 0;  ///< NaN: not known
};

/// All measurements of a pipeline.
struct Observations {
  std::size_t batch_size = 1;
  unsigned workers = 1;   ///< number of workers; 0: the training thread produces the samples
  std::size_t slabs = 4;  ///< number of batches for which the loader has memory
  /// Number of slabs that each worker adds; 0: `slabs` is the total.
  std::size_t slabs_per_worker = 0;
  MachineCapacity capacity;
  std::vector<Level> levels;  ///< all cache levels, from the device batch to nothing cached
  std::vector<HostStepCost> host;
  Measured rate_of_all_workers;      ///< samples/s of all workers while no training runs
  Measured rate_of_one_worker;       ///< samples/s of one worker
  Measured rate_of_half_of_workers;  ///< samples/s of workers / 2; n = 0: not measured
  std::vector<DeviceCost> device;
  double line_cpu_s = 0;    ///< CPU time per step of the threads that enqueue or run device steps
  Utilization utilization;  ///< measured with nothing cached
  Situation situation;
  std::vector<std::string> warnings;  ///< facts that make the values less certain
};

/// Smallest gain of a change that is proposed: smaller ones are not worth the work.
inline constexpr double kLeastGain = 1.05;

/// What a change takes, the least first.
enum class Effort : std::uint8_t {
  option,   ///< another option of the loader or another plan
  code,     ///< lines of code
  data,     ///< a converted or stored data set
  hardware  ///< another machine
};
/// Returns the enumerator's name, for example "option". The characters are static. Throws Error for
/// a value that is not an enumerator.
std::string_view to_string(Effort effort);
/// Returns the effort with this name. Throws Refused for an unknown name and lists the known ones.
Effort effort_named(std::string_view name);

/// A proposed change, with its predicted rate.
struct Change {
  std::string id;           ///< "num_workers", "cache", "device_transforms", ...
  std::string description;  ///< what to change, in a sentence
  std::string action;       ///< a command or a change of code; "" if `apply` is sufficient
  std::string step = {};    ///< the host step that the change affects; "" for none
  std::size_t number = 0;   ///< proposed number of workers, batches, reads or cores; 0: none
  Effort effort = Effort::code;
  Bottleneck bottleneck = Bottleneck::none;
  Measured predicted;           ///< steps/s after the change
  Measured gain;                ///< `predicted` divided by the present rate, unit "1"
  bool is_upper_bound = false;  ///< whether `predicted` assumes that the cost disappears entirely
  Measured measured = {};       ///< steps/s of a loop with the change; n = 0: it was not tried
  /// `measured` divided by the rate of the unchanged loop, which was measured in the same turns.
  Measured measured_gain = {};
  std::string code = {};  ///< code that makes the change where the loop is; "" if there is none
  std::function<void(Plan&)> apply;  ///< changes a plan; empty if a plan cannot express the change
  std::function<void(PipelineModel&)> model;  ///< applies the change to the model
};

/// One host step's row in the table of costs. All costs are per sample, in one worker alone.
struct CostRow {
  std::string name;
  Bottleneck group = Bottleneck::transforms;
  Measured wall_ms;
  Measured cpu_ms;
  double bytes = 0;              ///< size of the step's result for one sample
  double variation = 0;          ///< standard deviation of the wall time divided by its mean
  double p99_ms = 0;             ///< 99th percentile of the wall time
  double locked = 0;             ///< share of the step that only one worker at a time can execute
  bool is_memory_bound = false;  ///< whether workers wait for memory in this step
  Measured without;              ///< predicted steps/s if the step took no time
};

/// The bottleneck of a pipeline, and the changes that would help.
struct Diagnosis {
  std::shared_ptr<const PipelineModel> model;  ///< the model that was fitted to the measurements
  Bottleneck verdict = Bottleneck::not_enough_evidence;
  std::string reason;  ///< reason for the verdict, in a sentence
  /// Largest gain first; empty if the device does not wait for input.
  std::vector<Bottleneck> bottlenecks;
  /// Names of the steps for each Bottleneck::part in `bottlenecks`, in the same order.
  std::vector<std::string> parts;
  Measured ceiling;             ///< steps/s with batches already on the device
  Measured rate;                ///< steps/s with nothing cached
  Measured share;               ///< rate / ceiling
  std::vector<CostRow> costs;   ///< for each host step
  std::vector<Change> changes;  ///< in the order of rank_changes()
  double model_error = 0;       ///< relative error of the simulated rates against the measured ones
  /// Number of cores that keep the device busy: CPU time of the host steps for a batch times
  /// `ceiling`. The CPU time of training is included only if the process's cores are too few for
  /// both.
  std::optional<double> cores_needed;
};

/// Finds the bottleneck of the pipeline, and predicts the rates after possible changes.
/// docs/doctor-method.md describes the method. Values that were not measured lead to the verdict
/// not_enough_evidence, not to an exception. REQUIRES: `observed` was returned by examine(), or has
/// the same structure.
Diagnosis diagnose(const Observations& observed);

/// Orders the changes of `diagnosis` by what they take, and removes those that its evidence does
/// not support. Call it again after adding changes; diagnose() has called it already.
/// - Without a verdict there is no change. If input keeps up, only changes to the device's own work
///   (Bottleneck::device) remain.
/// - Changes that gain less than kLeastGain are removed.
/// - The change with the least effort comes first, and within an effort the one with the largest
///   gain. But a change that gains less than half of what a later one gains, and less than a factor
///   of 2, comes after it.
/// - Hardware comes last. It is removed if another change reaches within 5 % of its rate.
/// - Results of what_if() are kept at the end, because they propose nothing.
void rank_changes(Diagnosis& diagnosis);
/// Returns the names of `diagnosis.bottlenecks`. For Bottleneck::part, the name is that of the
/// part.
std::vector<std::string> bottleneck_names(const Diagnosis& diagnosis);
/// Returns the name of the verdict. For Bottleneck::part, it is the name of the part.
std::string verdict_name(const Diagnosis& diagnosis);

/// Whether the rate of a pipeline is at least a required share of its ceiling, the rate with all
/// batches cached on the device.
enum class ShareGate : std::uint8_t {
  passes,
  fails,     ///< the whole interval of the share is below the required share
  undecided  ///< only a part of the interval is below, or there is not enough evidence
};
/// Returns the enumerator's name, for example "passes". The characters are static. Throws Error for
/// a value that is not an enumerator.
std::string_view to_string(ShareGate gate);
/// Returns whether the pipeline reaches the share `least`, in [0, 1], of its ceiling. The result is
/// `undecided` in three cases: the share is below `least` but the end of its interval is not;
/// nothing was measured; or the interval begins below `least` and the verdict is
/// not_enough_evidence.
ShareGate judge_share(const Diagnosis& diagnosis, double least);

/// An assumed cost of a host step.
struct AssumedCost {
  static constexpr double kMostSeconds = 3600;  ///< the largest value of `seconds`
  std::string step;                             ///< name of the step
  double seconds = 0;                           ///< mean for a sample
};
/// Predicts the rate of the pipeline if all these host steps had the assumed costs. The result has
/// the id "what_if" and no `apply`. Throws Refused for an unknown step, and for a time that is not
/// from 0 to AssumedCost::kMostSeconds. REQUIRES: diagnose(observed) returned `diagnosis`.
Change what_if(const Observations& observed, const Diagnosis& diagnosis,
               const std::vector<AssumedCost>& supposed);

/// A native loader (slipstream.DataLoader) that takes the place of a PyTorch loader.
struct NativePort {
  /// Host steps that run natively, or not at all, with their times in one thread.
  std::vector<AssumedCost> steps;
  /// Whether worker processes read the data set and send each sample to the loader.
  bool has_worker_processes = true;
};
/// Predicts the rate of a PyTorch loop with a native loader, which has at least one worker.
/// Compared with what_if(), collating costs only copies of the sample, batches need not pass from
/// process to process, and they are copied to the device in advance. The result has the id
/// "native_transforms" and no `apply`. Throws Refused like what_if(). REQUIRES: diagnose(observed)
/// returned `diagnosis`, which has a host step.
Change port_to_native(const Observations& observed, const Diagnosis& diagnosis,
                      const NativePort& port);

/// A plan with changes applied.
struct Remedy {
  Plan plan;
  std::vector<std::string> changes;  ///< Change::id of each applied change
  Measured predicted;                ///< steps/s with all changes
};
/// Applies changes to the plan that was examined, one after the other, the one with the largest
/// predicted gain first, until none gains at least kLeastGain. It uses only changes that a plan can
/// express, and runs nothing. REQUIRES: diagnose(observed) returned `diagnosis`.
Remedy find_remedy(const Observations& observed, const Diagnosis& diagnosis);

/// Predicted and measured rates of a changed plan.
struct Outcome {
  Plan plan;
  std::vector<std::string> changes;  ///< Change::description of each applied change
  Measured before;                   ///< steps/s of the examined plan, measured again
  Measured predicted;                ///< steps/s
  Measured measured;                 ///< steps/s of the changed plan
  std::string note = {};             ///< a fact that makes `measured` less certain; "" for none
};

}  // namespace slipstream
