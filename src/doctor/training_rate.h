#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/trainer.h"

namespace slipstream {

/// Steps/s of a run that is measured in several turns, in its steady state.
class TrainingRate {
 public:
  TrainingRate(Plan plan, std::optional<Cut> cut, std::string last_step = {});

  /// Runs for about `seconds`, and at least a few steps. The trainer's state is not put back.
  void measure(Trainer& trainer, double seconds, const std::function<bool()>& stop);

  const Plan& plan() const { return plan_; }
  /// With a cache in the plan and no cut, each measure() first trains for up to this long, until an
  /// epoch has filled it; 0, as it begins: not at all.
  void fill_cache_for(double seconds) { fill_s_ = seconds; }
  /// Whether the cache was not full when measuring began.
  bool is_cold() const { return is_cold_; }
  bool is_measured() const { return !durations_s_.empty(); }
  /// The interval reaches down to what batches that were filled or taken ahead may have hidden.
  /// REQUIRES: is_measured()
  Measured rate() const;
  /// Of all runs: one a step of the device.
  const std::vector<StepCounter>& counters() const { return counters_; }
  /// Seconds of steady steps, by the cached item that they took; empty without a cut.
  const std::vector<std::vector<double>>& by_item() const { return by_item_; }
  /// REQUIRES: measure() returned
  const RunResult& last() const { return last_; }

 private:
  bool keep(const RunResult& result);
  bool fills_batches(const RunResult& result) const;
  bool is_telling(const RunResult& result, std::size_t first) const;
  void fill_cache(Trainer& trainer, const std::function<bool()>& stop);

  Plan plan_;
  std::optional<Cut> cut_;
  std::string last_step_;
  std::vector<double> durations_s_;
  double spared_steps_ = 0;   ///< of them; see spared_steps()
  bool has_telling_ = false;  ///< whether they are of runs that show what the loader makes
  std::size_t half_made_ = 1;
  std::vector<std::vector<double>> by_item_;
  std::vector<StepCounter> counters_;
  RunResult last_;
  double fill_s_ = 0;
  bool is_cold_ = false;
};

/// The first step of a run after which it is in its steady state: batches that were filled ahead
/// are used up, also those that had been taken and waited for the device, or the queue of them
/// stays as full as it is.
std::size_t first_steady_step(const std::vector<StepInput>& inputs,
                              const std::vector<double>& step_end_s, std::size_t lanes);

/// Whether some step from `first` on found its queue used up.
bool is_used_up(const std::vector<StepInput>& inputs, std::size_t first);

/// Of the steps from `first` on, how many may not have waited only for batches that lay ready: as
/// many as the queue lost; where it was used up, also the batches that had been taken before
/// `first`, as far as they are more than usually; where it was neither that nor at both ends as
/// full as it ever was, also the `half_made` ones that workers had begun.
double spared_steps(const std::vector<StepInput>& inputs, const std::vector<double>& step_end_s,
                    std::size_t first, std::size_t half_made);

/// By how much longer steps would take from then on were the queue not drained meanwhile: 1 where
/// it was not.
double draining_factor(const std::vector<StepInput>& inputs, std::size_t first);

}  // namespace slipstream
