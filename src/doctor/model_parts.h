#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/pipeline_model.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

inline constexpr std::string_view kDeviceLevel = "device batch";
/// The level of host batches on a CPU. On a GPU, the next two levels replace it.
inline constexpr std::string_view kHostLevel = "host batch";
inline constexpr std::string_view kPinnedLevel = "host batch, pinned";
inline constexpr std::string_view kPageableLevel = "host batch, pageable";
inline constexpr std::string_view kCollatedLevel = "collated batch";  ///< passed on by workers
inline constexpr std::string_view kProcessedLevel = "processed sample";
inline constexpr std::string_view kWholeLevel = "nothing cached";

/// Largest half of an interval, as a share of the value, that allows a verdict.
inline constexpr double kWidest = 0.2;

/// Returns the rate with training of the level `name`, or nothing if it was not measured.
std::optional<Measured> level_rate(const Observations& observed, std::string_view name);
/// Returns the level of host batches in the kind of memory, pinned or pageable, that the plan uses.
std::string_view host_level(const Observations& observed);
/// Returns true if worker processes pass whole batches to training, and this was measured.
bool passes_batches(const Observations& observed);
/// Returns the rate with training of batches that are ready on the host, or nothing if it was not
/// measured. It includes the copy to the device. If worker processes pass batches to training, it
/// also includes this.
std::optional<Measured> host_rate(const Observations& observed);
/// Returns true if the level does work that levels which cache fewer steps do not do, so that their
/// rates cannot be compared. This happens in three cases: its batches are in another kind of memory
/// than the plan's batches; it caches samples before the plan's cache, which is then disabled; or
/// it caches whole images, but the plan decodes only parts of them.
bool is_unordered(const Observations& observed, const Level& level);

/// Returns `model` with the first `steps` host steps cached, so that they take no time.
PipelineModel cut_after(PipelineModel model, std::size_t steps);
void make_free(PipelineModel::Step& step);

void scale_costs(PipelineModel& model, double by);

/// Samples/s of `workers` workers while no training runs.
double drained_rate(PipelineModel model, unsigned workers);

/// 0 for no values.
double compute_mean(const std::vector<float>& values);
/// Standard deviation divided by the mean.
double compute_variation(const std::vector<double>& values);
/// Half of the interval divided by the value; 1 if nothing was measured.
double half_width(const Measured& measured);
/// `rate` times `by`, in another unit.
Measured scaled(const Measured& rate, double by, std::string unit);
/// Seconds between the events of a rate. REQUIRES: rate.value > 0
Measured seconds_per_event(const Measured& rate);

/// Two levels that contradict each other: the one that does more work is certainly faster.
struct Contradiction {
  std::string shorter;  ///< the level that has more cached, but was slower
  std::string longer;
  double by = 0;  ///< rate of `longer` / rate of `shorter` - 1
};
/// Returns the pair of levels with the largest contradiction, or nothing.
std::optional<Contradiction> find_contradiction(const Observations& observed);

/// Number of cores that the loader needs to keep the device busy at `ceiling` steps/s: the CPU time
/// of a batch's host steps times `ceiling`. The CPU time of the training thread is added only if
/// `cores`, the number that the process may use, is too small for both: it then takes cores from
/// workers.
double cores_needed(const PipelineModel& model, double ceiling, unsigned cores);

/// Seconds per step of several simulations, each with another seed.
std::vector<double> simulated_steps_s(const PipelineModel& model);
double mean_step_s(const PipelineModel& model);
/// Whether the loader of `model` keeps up with its training thread.
bool is_fed(const PipelineModel& model);
/// Whether the loader of `model` keeps up, if mean_step_s(model) is already known to be `step_s`.
bool is_fed(const PipelineModel& model, double step_s);

/// Removes the time of the copy from the model, as if batches were already on the device.
void take_copy_out(const Observations& observed, PipelineModel& model);

/// Root mean square of the relative differences between simulated and measured levels.
double compute_model_error(const Observations& observed, const PipelineModel& model);

/// Replaces the lanes by those of make_plan("pipelined", ...).
void pipeline_lanes(Plan& plan, bool on_gpu);
/// Moves `first` and all later transforms to the device: to a separate lane, or to the first lane
/// if that does more than copy.
void put_transforms_on_device(Plan& plan, const std::string& first);

/// The smallest number of workers that is about as fast as any larger number.
unsigned enough_workers(const PipelineModel& now);

/// Returns all changes that gain at least kLeastGain, with the predicted rate after each of them
/// alone.
std::vector<Change> changes_for(const Observations& observed, const PipelineModel& now,
                                double model_error);

}  // namespace slipstream
