#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Number of steps at the end of a run that first_steady_step() leaves for the measurement, if
/// possible.
inline constexpr std::size_t kFewestSteadySteps = 4;

/// Measures the steps/s of a plan in its steady state, from one or several runs.
class SteadyRate {
 public:
  /// Measures runs with this cut.
  explicit SteadyRate(std::optional<Cut> cut = {});

  /// Adds the steady steps of a run; returns false if it had none. As soon as some run is
  /// conclusive, only conclusive runs count.
  bool add(const RunResult& result, std::size_t batch_size);
  /// Adds the steps from `first` to the last one, whether they are steady or not. `first` is not
  /// the first step of the run, because its duration is unknown. REQUIRES: the run has that step
  void add_from(std::size_t first, const RunResult& result, std::size_t batch_size);

  bool is_measured() const { return !durations_s_.empty(); }
  /// Returns true if it is certain that the measured steps did not mainly use prefetched batches.
  bool is_conclusive() const { return is_conclusive_; }
  std::size_t steps() const { return durations_s_.size(); }
  /// Returns the rate. The lower end of its interval takes into account the time that prefetched
  /// batches may have hidden. REQUIRES: is_measured()
  Measured rate() const;
  /// Returns the durations of steady steps in seconds, by the cached item that each step used;
  /// empty without a cut.
  const std::vector<std::vector<double>>& by_item() const { return by_item_; }

 private:
  bool is_conclusive_run(const RunResult& result, std::size_t first) const;

  std::optional<Cut> cut_;
  std::vector<double> durations_s_;
  /// Number of the measured steps whose wait was hidden, see spared_steps().
  double spared_steps_ = 0;
  bool is_conclusive_ = false;
  std::vector<std::vector<double>> by_item_;
};

/// Returns true if the loader assembled batches during this run with this cut, that is, if the
/// batches were not cached completely.
bool fills_batches(const RunResult& result, const std::optional<Cut>& cut);

/// Returns the largest number of batches that may have been filled or taken before the last lane
/// uses them.
std::size_t batches_ahead(const Plan::Schedule& schedule);

/// Returns how many batches may have been started by workers, but not completed, when a batch was
/// requested.
std::size_t partly_filled_batches(const RunResult& result, std::size_t batch_size);

/// Returns the first step of a run's steady state. From this step on, either the prefetched batches
/// have been used up, including those that had been taken and waited for the device, or the number
/// of batches in the queue does not change.
std::size_t first_steady_step(const std::vector<StepInput>& inputs,
                              const std::vector<double>& step_end_s, std::size_t lanes);

/// Returns true if some step, not before `first`, found the queue of batches used up.
bool is_used_up(const std::vector<StepInput>& inputs, std::size_t first);

/// Returns the number of steps, not before `first`, whose wait for loading may have been hidden by
/// batches that were ready earlier. It is the sum of the batches that the queue lost during these
/// steps and one of the following: if the queue was used up, the batches that had been taken before
/// `first` in excess of the usual number; if it was not used up and was not at its fullest at both
/// ends, the `partly_filled_batches` that workers had started.
double spared_steps(const std::vector<StepInput>& inputs, const std::vector<double>& step_end_s,
                    std::size_t first, std::size_t partly_filled_batches);

/// Returns the factor by which steps would take longer if the queue were not being drained during
/// the measurement; 1 if it was not drained.
double draining_factor(const std::vector<StepInput>& inputs, std::size_t first);

}  // namespace slipstream
