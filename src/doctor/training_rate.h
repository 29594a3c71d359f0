#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "doctor/turn_time.h"
#include "engine/steady_rate.h"

namespace slipstream {

/// Steps/s of a run that is measured in several turns, in its steady state.
class TrainingRate {
 public:
  TrainingRate(Plan plan, std::optional<Cut> cut, std::string last_step = {});

  /// Runs for about `time.wanted_s`, and at least a few steps; where these take longer than
  /// `time.most_s`, one that counts. Where no step's time is known, the fewest that tell it come
  /// first, in a run of their own. The trainer's state is not put back.
  void measure(Trainer& trainer, const TurnTime& time, const std::function<bool()>& stop);

  const Plan& plan() const { return plan_; }
  /// With a cache in the plan and no cut, each measure() first trains for up to this long, until an
  /// epoch has filled it; 0, as it begins: not at all.
  void fill_cache_for(double seconds) { fill_s_ = seconds; }
  /// Whether the cache was not full when measuring began.
  bool is_cold() const { return is_cold_; }
  bool is_measured() const { return rate_.is_measured() || scarce_.n > 0; }
  /// The interval reaches down to what batches that were filled or taken ahead may have hidden.
  /// Where there was no time for steady steps it is of those there were, from the run's beginning,
  /// so that none was filled ahead, and the interval reaches down to 0; but of cached batches every
  /// step after the first is steady. n = 0 where nothing is measured.
  Measured rate() const;
  /// Of all runs: one a step of the device.
  const std::vector<StepCounter>& counters() const { return counters_; }
  /// Seconds of steady steps, by the cached item that they took; empty without a cut.
  const std::vector<std::vector<double>>& by_item() const { return rate_.by_item(); }
  /// REQUIRES: measure() returned
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
  Measured scarce_ = {};  ///< of the last run, where there was no time for steady steps
  std::vector<StepCounter> counters_;
  RunResult last_;
  double fill_s_ = 0;
  bool is_cold_ = false;
};

}  // namespace slipstream
