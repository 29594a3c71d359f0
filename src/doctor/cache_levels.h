#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "doctor/drained_rate.h"
#include "doctor/training_rate.h"
#include "doctor/wires.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// A cache level before it is measured.
struct LevelPlan {
  std::string name;
  Plan how;
  std::optional<Cut> cut;     ///< empty: nothing is cached
  std::size_t step = 0;       ///< index of the host step whose results are cached
  bool is_essential = false;  ///< whether a diagnosis needs this level
};

/// A level of cached samples.
struct SampleLevel {
  std::string name;
  std::string after;     ///< the host step whose results are cached
  std::size_t step = 0;  ///< index of the last cached step
};

/// Returns the levels that cache samples. The first level has most steps cached.
/// `steps`: names of the host steps, the last of which collates. `has_decoding`: whether the first
/// two steps read and decode. `only_first`: whether only the results of the first step can be
/// cached.
std::vector<SampleLevel> sample_levels(const std::vector<std::string>& steps, bool has_decoding,
                                       bool only_first);

/// Returns whether images are copied as JPEG files, which the device decodes.
bool travels_as_files(const Plan& plan);

/// Returns all levels, from the device batch to nothing cached. The caller sets `Cut::items`.
std::vector<LevelPlan> plan_levels(const Pipeline& pipeline, const Plan& plan, bool on_gpu);

struct MeasuredLevel {
  explicit MeasuredLevel(LevelPlan level);

  LevelPlan plan;
  TrainingRate training;
  std::optional<DrainedRate> loader_alone;  ///< only at levels that cache samples
};

/// A device step that runs alone on cached batches.
struct MeasuredStep {
  std::string name;
  TrainingRate rate;
};

/// Returns each device step of `plan`, with the results of the step before it cached.
std::deque<MeasuredStep> steps_alone(const Pipeline& pipeline, const Plan& plan, DeviceKind device,
                                     std::size_t batches);

/// Returns the costs of each host step: the costs of single samples, measured by `one` with one
/// worker, and mean costs, measured by `all` with all workers. REQUIRES: `one` is measured
std::vector<HostStepCost> host_costs(const DrainedRate& one, const DrainedRate& all,
                                     const std::vector<NamedOp>& transforms);
/// REQUIRES: step.rate is measured
DeviceCost make_device_cost(const MeasuredStep& step);

/// Seconds of CPU time per step of the threads that enqueue or execute the device steps.
double line_cpu_s(const TrainingRate& rate);

/// Mean size of each step's result for one sample, in bytes.
std::vector<double> bytes_per_sample(const std::vector<StepCounter>& counters);

/// Seconds of each single sample, summed over all steps.
std::vector<double> seconds_per_sample(const std::vector<StepLaps>& laps);

}  // namespace slipstream
