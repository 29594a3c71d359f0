#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/pipeline_model.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

inline constexpr std::string_view kDeviceLevel = "device batch";
inline constexpr std::string_view kHostLevel = "host batch";  ///< of a CPU; of a GPU one of:
inline constexpr std::string_view kPinnedLevel = "host batch, pinned";
inline constexpr std::string_view kPageableLevel = "host batch, pageable";
inline constexpr std::string_view kCollatedLevel = "collated batch";  ///< handed over by workers
inline constexpr std::string_view kProcessedLevel = "processed sample";
inline constexpr std::string_view kWholeLevel = "nothing cached";

/// Rate with training of the level called `name`.
std::optional<Measured> level_rate(const Observations& observed, std::string_view name);
/// The level of host batches that are in memory as the plan's are.
std::string_view host_level(const Observations& observed);
/// Whether the level does other work than a part of what comes behind it on the ladder: batches in
/// another kind of memory than the plan's, samples cut ahead of the plan's cache, which the cut
/// switches off, or whole images where decoding makes parts.
bool is_unordered(const Observations& observed, const Level& level);

/// `model` with its first `steps` steps cached.
PipelineModel cut_after(PipelineModel model, std::size_t steps);
void make_free(PipelineModel::Step& step);

void scale_costs(PipelineModel& model, double by);

/// Samples/s that these workers make with nobody training.
double drained_rate(PipelineModel model, unsigned workers);

/// 0 for no values.
double compute_mean(const std::vector<float>& values);
/// Standard deviation over mean.
double compute_variation(const std::vector<double>& values);
/// Half of the interval over the value; 1 for nothing measured.
double half_width(const Measured& measured);
/// `rate` times `by`, in another unit.
Measured scaled(const Measured& rate, double by, std::string unit);
/// Seconds between the events of a rate, which is above 0.
Measured seconds_per_event(const Measured& rate);

/// Two levels that contradict each other, by the most.
struct Contradiction {
  std::string shorter;  ///< the level that has more cached, and was slower
  std::string longer;
  double by = 0;
};
std::optional<Contradiction> find_contradiction(const Observations& observed);

/// Cores that the loader needs to keep a device busy which could make `ceiling` steps/s: the CPU
/// time of a batch's host steps. That of its line counts only where the process's `cores` do not
/// hold both, for there it takes them from workers.
double cores_needed(const PipelineModel& model, double ceiling, unsigned cores);

/// Of several simulations.
std::vector<double> simulated_steps_s(const PipelineModel& model);
double mean_step_s(const PipelineModel& model);
/// Whether its loader keeps up with its line.
bool is_fed(const PipelineModel& model);
/// Where a step is known to take `step_s`, as mean_step_s() tells.
bool is_fed(const PipelineModel& model, double step_s);

/// As if batches were on the device already.
void take_copy_out(const Observations& observed, PipelineModel& model);

/// Relative, in the mean of squares, of the simulated levels against the measured.
double compute_model_error(const Observations& observed, const PipelineModel& model);

inline constexpr double kWorthSaying = 1.02;  ///< of gain

/// Lanes as make_plan() makes them of "pipelined".
void pipeline_lanes(Plan& plan, bool on_gpu);
/// The transforms from `first` on, on a lane of their own, but where all steps share one.
void put_transforms_on_device(Plan& plan, const std::string& first);

/// The fewest workers that are about as fast as any number.
unsigned enough_workers(const PipelineModel& now);

/// All changes that may help, with what each alone is predicted to give.
std::vector<Change> changes_for(const Observations& observed, const PipelineModel& now,
                                double model_error);

}  // namespace slipstream
