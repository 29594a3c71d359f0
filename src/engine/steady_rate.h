#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Steps of a run, at the end, that first_steady_step() leaves for measuring where it can.
inline constexpr std::size_t kFewestSteadySteps = 4;

/// Steps/s of a plan in its steady state, from one run or several.
class SteadyRate {
 public:
  /// Of runs with this cut.
  explicit SteadyRate(std::optional<Cut> cut = {});

  /// Takes the steady steps of a run; false where it had none. Where some runs are telling, only
  /// those count.
  bool add(const RunResult& result, std::size_t batch_size);
  /// The same from step `first` on, which is not the run's first, whether it is steady or not.
  /// REQUIRES: the run has that step
  void add_from(std::size_t first, const RunResult& result, std::size_t batch_size);

  bool is_measured() const { return !durations_s_.empty(); }
  /// Whether it is known that batches filled ahead are not what fed the steps.
  bool is_conclusive() const { return is_conclusive_; }
  std::size_t steps() const { return durations_s_.size(); }
  /// The interval reaches down to what batches that were filled or taken ahead may have hidden.
  /// REQUIRES: is_measured()
  Measured rate() const;
  /// Seconds of steady steps, by the cached item that they took; empty without a cut.
  const std::vector<std::vector<double>>& by_item() const { return by_item_; }

 private:
  bool is_conclusive_run(const RunResult& result, std::size_t first) const;

  std::optional<Cut> cut_;
  std::vector<double> durations_s_;
  double spared_steps_ = 0;  ///< of them; see spared_steps()
  bool is_conclusive_ = false;
  std::vector<std::vector<double>> by_item_;
};

/// Whether batches were filled while this run with this cut went on, not cached whole.
bool fills_batches(const RunResult& result, const std::optional<Cut>& cut);

/// How many batches may have been filled, or taken, ahead of the one that the last lane is at.
std::size_t batches_ahead(const Plan::Schedule& schedule);

/// How many batches workers may have begun, but not filled, when one was asked for.
std::size_t partly_filled_batches(const RunResult& result, std::size_t batch_size);

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
/// full as it ever was, also the `partly_filled_batches` ones that workers had begun.
double spared_steps(const std::vector<StepInput>& inputs, const std::vector<double>& step_end_s,
                    std::size_t first, std::size_t partly_filled_batches);

/// By how much longer steps would take from then on were the queue not drained meanwhile: 1 where
/// it was not.
double draining_factor(const std::vector<StepInput>& inputs, std::size_t first);

}  // namespace slipstream
