#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipstream/core/statistics.h"
#include "slipstream/plan/plan.h"

namespace slipstream {

struct PipelineModel;

/// What can hold a pipeline up, as the doctor names it.
enum class Culprit : std::uint8_t {
  gpu,                  ///< the device is busy: input keeps up with it
  copy,                 ///< batches on their way to the device
  transforms,           ///< per-sample transforms and collating, on loader threads
  decode,               ///< making pixels of file bytes
  raw_reading,          ///< getting at file bytes
  launch,               ///< the host enqueues the device's work more slowly than that is done
  lock,                 ///< workers wait for each other
  memory_bandwidth,     ///< workers wait for memory
  none,                 ///< input keeps up, and the device is not full
  not_enough_evidence,  ///< the intervals are too wide to say
};
std::string_view name_of(Culprit culprit);
/// Throws Refused for any other name.
Culprit culprit_named(std::string_view name);

/// How many threads' worth of work a machine does when `threads` of them work at once; of memory,
/// how many threads' worth of reading.
struct MachineCapacity {
  double cores = 1;
  double memory_streams = 1;
  double copy_bytes_per_second = 4e9;  ///< by one thread, between blocks larger than caches
};
/// The pipeline cut at one point: everything before stands in a cache.
struct Rung {
  std::string name;   ///< "device batch", "host batch, pinned", ..., "nothing cached"
  std::string after;  ///< the step that the cut is behind; "" for nothing cached
  std::size_t items = 0;
  std::optional<Measured> with_training;  ///< steps/s
  std::optional<Measured> drained;        ///< steps/s that the loader makes, nobody training
  std::string error;                      ///< why `with_training` is missing; "" otherwise
  std::string drained_error;              ///< likewise
};

/// One host step's costs, sample by sample.
struct HostStepCost {
  std::string name;
  Culprit group = Culprit::transforms;  ///< raw_reading, decode or transforms
  std::vector<float> wall_s;            ///< of single samples, one worker alone
  std::vector<float> cpu_s;             ///< of the same samples, that thread's CPU time
  double wall_of_all_s = 0;             ///< mean with all workers, drained
  double cpu_of_all_s = 0;
  double bytes = 0;  ///< that it makes of a sample
  bool is_random = false;
};

/// What is done on the device, on a cached batch, alone.
struct DeviceCost {
  std::string name;       ///< "copy", a stage, the training stage; or a lane's steps
  Measured seconds;       ///< a batch
  double enqueue_s = 0;   ///< host time of it
  std::size_t bytes = 0;  ///< that it moves or makes
};

/// Another way for a field to travel to the device, smaller than its own.
struct WireChoice {
  std::string field;
  Wire wire = Wire::plain;
  double less = 0;  ///< share of the bytes copied for a batch that it spares; not of Wire::jpeg
  std::optional<Measured> decode_s = {};  ///< Wire::jpeg: a batch, by the device's engines, alone
  /// Wire::jpeg: the first transform that the device then has to do, where the plan has it done on
  /// the host; "" for none.
  std::string on_device_from = {};
};

/// What of the surroundings decides which changes can be made, and what they would cost. Measured
/// values are absent where they were not measured.
struct Situation {
  Plan plan;
  bool on_gpu = false;
  unsigned cores = 1;  ///< that this process may use
  std::uint64_t free_memory_bytes = 0;
  std::uint64_t samples = 0;    ///< of the data set
  std::string last_fixed_step;  ///< the last host step before the first random one
  /// Whether decoding makes no more of an image than the first transform reads; cached behind it,
  /// images are whole.
  bool decodes_parts = false;
  std::string on_device_from;         ///< the first transform that the device could do; "": none
  std::optional<Measured> augment_s;  ///< a batch of these on the device, alone
  bool crops_late = false;            ///< a crop behind transforms that need no whole image
  std::string crop;                   ///< its name
  bool has_frozen_stage = false;
  bool frozen_input_is_fixed = false;      ///< nothing random ahead of it
  std::vector<std::string> unused_fields;  ///< copied, and no stage reads them
  std::vector<WireChoice> wires;           ///< that the plan does not use, on a GPU
};

/// How busy the device and the cores were in a measurement of the whole pipeline.
struct Utilization {
  std::optional<double> sm_activity;  ///< share of cycles with a warp resident
  std::optional<double> dram_use;     ///< share of the peak bandwidth
  std::optional<double> coarse;       ///< share of time with any kernel: misleads
  std::string note;
  double cpu_share = 0;  ///< of the cores that this process may use
  double read_bytes_per_second = 0;
};

/// All that was measured of a pipeline.
struct Observations {
  std::size_t batch_size = 1;
  unsigned workers = 1;
  std::size_t slabs = 4;
  MachineCapacity capacity;
  std::vector<Rung> rungs;  ///< from the device batch to nothing cached
  std::vector<HostStepCost> host;
  Measured drained_of_all;  ///< samples/s of all workers
  Measured drained_of_one;
  Measured drained_of_half;  ///< workers / 2; n = 0: not measured
  std::vector<DeviceCost> device;
  double line_cpu_s = 0;    ///< CPU time that a step takes of the thread that drives training
  Utilization utilization;  ///< of nothing cached
  Situation situation;
  std::vector<std::string> warnings;
};

/// A thing to change, with what it is predicted to give.
struct Change {
  std::string id;    ///< "num_workers", "cache", "device_transforms", ...
  std::string what;  ///< a sentence
  std::string how;   ///< a command or a change of code; "" where `apply` does it
  Culprit against = Culprit::none;
  Measured predicted;                ///< steps/s
  Measured gain;                     ///< over now, "1"
  bool is_bound = false;             ///< at most so much: it takes the cost away altogether
  std::function<void(Plan&)> apply;  ///< empty where a plan cannot express it
  std::function<void(PipelineModel&)> model;  ///< the same in the model
};

/// A host step's line in the table of costs. Per sample, ms.
struct CostRow {
  std::string name;
  Culprit group = Culprit::transforms;
  Measured wall_ms;
  Measured cpu_ms;
  double bytes = 0;
  double variation = 0;  ///< standard deviation over mean
  double p99_ms = 0;
  double locked = 0;  ///< share that workers wait for each other in
  bool is_memory_bound = false;
  Measured without;  ///< steps/s, were it to cost nothing
};

struct Diagnosis {
  std::shared_ptr<const PipelineModel> model;  ///< that explains what was measured
  Culprit verdict = Culprit::not_enough_evidence;
  std::string reason;             ///< a sentence
  std::vector<Culprit> culprits;  ///< most gain first; empty where nothing starves
  Measured ceiling;               ///< steps/s of the device batch
  Measured rate;                  ///< steps/s with nothing cached
  Measured share;                 ///< rate / ceiling
  std::vector<CostRow> costs;
  std::vector<Change> changes;  ///< most gain first
  double model_error = 0;       ///< relative, of the simulated rungs against the measured
  /// To keep the device busy: the loader's, and training's own where it would take them from
  /// workers.
  std::optional<double> cores_needed;
};

Diagnosis diagnose(const Observations& observed);

/// Whether the pipeline delivers `least` of its ceiling, whatever explains it. Fails where it
/// surely does not; undecided where the share is below and its interval is not, where nothing is
/// known, or where there is too little evidence to name a verdict and the interval begins below.
enum class ShareGate : std::uint8_t { passes, fails, undecided };
ShareGate judge_share(const Diagnosis& diagnosis, double least);

/// What a host step is supposed to cost a sample, s.
struct Supposition {
  static constexpr double kMostSeconds = 3600;
  std::string step;
  double seconds = 0;
};
/// What it would give if host steps cost that, all together. Throws Refused for a step that is not
/// there, or a time that is not from 0 to Supposition::kMostSeconds.
Change what_if(const Observations& observed, const Diagnosis& diagnosis,
               const std::vector<Supposition>& supposed);

/// The changes that `plan` can express, applied together as far as each of them still gains.
struct Remedy {
  Plan plan;
  std::vector<std::string> changes;  ///< ids
  Measured predicted;                ///< steps/s, of all together
};
Remedy remedy_of(const Observations& observed, const Diagnosis& diagnosis);

/// What a changed plan was predicted to give, and gave.
struct Outcome {
  Plan plan;
  std::vector<std::string> changes;  ///< Change::what of those applied
  Measured before;                   ///< steps/s
  Measured predicted;                ///< steps/s
  Measured measured;                 ///< steps/s
  std::string note = {};             ///< what makes `measured` less sure; "" for nothing
};

}  // namespace slipstream
