#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "doctor/turn_time.h"
#include "engine/steady_rate.h"

namespace slipstream {

/// Measures the steady-state rate of a run, in steps/s, over several turns.
class TrainingRate {
 public:
  TrainingRate(Plan plan, std::optional<Cut> cut, std::string last_step = {});

  /// Runs for about `time.wanted_s`, and at least a few steps. If these take longer than
  /// `time.most_s`, one counted step is enough. If the time of a step is not known, a separate run
  /// with the fewest possible steps measures it first. Waits until the run has finished. Does not
  /// restore the trainer's state.
  void measure(Trainer& trainer, const TurnTime& time, const std::function<bool()>& stop);

  /// Forgets all measured steps.
  void restart();

  const Plan& plan() const { return plan_; }
  /// Sets how long each measure() may train in advance to fill the plan's cache, which takes an
  /// epoch. The default is 0, which does not fill it. Has no effect without a cache or with a cut.
  void fill_cache_for(double seconds) { fill_s_ = seconds; }
  /// Whether the cache was not full when the measurement began.
  bool is_cold() const { return is_cold_; }
  bool is_measured() const { return rate_.is_measured() || scarce_.n > 0; }
  /// Returns the rate of steady steps. Prefetched batches may hide a lower rate, and the interval
  /// reaches down to it. If there was no time for steady steps, the result is the rate of all steps
  /// since the start of the run, when no batch was prefetched, and the interval reaches down to 0.
  /// With cached batches, however, each step after the first is steady. n = 0 if nothing has been
  /// measured.
  Measured rate() const;
  /// One counter for each device step, summed over all runs.
  const std::vector<StepCounter>& counters() const { return counters_; }
  /// Seconds of steady steps, grouped by the cached item that they used; empty without a cut.
  const std::vector<std::vector<double>>& by_item() const { return rate_.by_item(); }
  /// Result of the last run. REQUIRES: measure() has returned
  const RunResult& last() const { return last_; }

 private:
  using Stop = std::function<bool()>;

  void fill_cache(Trainer& trainer, const Stop& stop);
  std::size_t fewest() const;
  RunOptions run_options() const;
  RunResult run(Trainer& trainer, const TurnTime& time, std::size_t least, const Stop& stop) const;
  TurnTime after_fewest(Trainer& trainer, const TurnTime& time, const Stop& stop);
  bool allows_more(const TurnTime& time) const;

  Plan plan_;
  std::optional<Cut> cut_;
  std::string last_step_;
  SteadyRate rate_;
  Measured scarce_ = {};  ///< rate of all steps of the last run, used if too few were steady
  std::vector<StepCounter> counters_;
  RunResult last_;
  double fill_s_ = 0;
  bool is_cold_ = false;
};

}  // namespace slipstream
