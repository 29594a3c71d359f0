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

/// A level of the ladder before it is measured.
struct LevelPlan {
  std::string name;
  Plan how;
  std::optional<Cut> cut;     ///< nothing: nothing is cached
  std::size_t step = 0;       ///< of the host, that the cut is behind
  bool is_essential = false;  ///< a diagnosis needs it
};

/// A level of cached samples.
struct SampleLevel {
  std::string name;
  std::string after;     ///< the host step whose results are cached
  std::size_t step = 0;  ///< its index
};

/// The levels of cached samples, from the one after the last step to the one after the first.
/// `steps`: of the host, the last of which collates. `has_decoding`: whether the first two read and
/// decode. `only_first`: no other step's results can be cached.
std::vector<SampleLevel> sample_levels(const std::vector<std::string>& steps, bool has_decoding,
                                       bool only_first);

/// Whether images are decoded by the device.
bool travels_as_files(const Plan& plan);

/// From the device batch to nothing cached; `items` of the cuts are not set.
std::vector<LevelPlan> plan_levels(const Pipeline& pipeline, const Plan& plan, bool on_gpu);

struct MeasuredLevel {
  explicit MeasuredLevel(LevelPlan level);

  LevelPlan plan;
  TrainingRate training;
  std::optional<DrainedRate> loader_alone;  ///< of cached samples
};

/// A device step on cached batches, alone.
struct MeasuredStep {
  std::string name;
  TrainingRate rate;
};

/// Every device step of `plan`, each with what comes before it cached.
std::deque<MeasuredStep> steps_alone(const Pipeline& pipeline, const Plan& plan, DeviceKind device,
                                     std::size_t batches);

/// Single samples of one worker alone, which is measured, and means of all workers together.
std::vector<HostStepCost> host_costs(const DrainedRate& one, const DrainedRate& all,
                                     const std::vector<NamedOp>& transforms);
/// REQUIRES: it is measured
DeviceCost make_device_cost(const MeasuredStep& step);

/// CPU time that a step takes of the threads that do or enqueue it, s.
double line_cpu_s(const TrainingRate& rate);

/// Bytes that each step makes of a sample.
std::vector<double> bytes_per_sample(const std::vector<StepCounter>& counters);

/// Seconds that each single sample takes in all steps together.
std::vector<double> seconds_per_sample(const std::vector<StepLaps>& laps);

}  // namespace slipstream
