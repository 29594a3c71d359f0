#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run/steady_rate.h"

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
  bool is_measured() const { return rate_.is_measured(); }
  /// The interval reaches down to what batches that were filled or taken ahead may have hidden.
  /// REQUIRES: is_measured()
  Measured rate() const { return rate_.rate(); }
  /// Of all runs: one a step of the device.
  const std::vector<StepCounter>& counters() const { return counters_; }
  /// Seconds of steady steps, by the cached item that they took; empty without a cut.
  const std::vector<std::vector<double>>& by_item() const { return rate_.by_item(); }
  /// REQUIRES: measure() returned
  const RunResult& last() const { return last_; }

 private:
  void fill_cache(Trainer& trainer, const std::function<bool()>& stop);

  Plan plan_;
  std::optional<Cut> cut_;
  std::string last_step_;
  SteadyRate rate_;
  std::vector<StepCounter> counters_;
  RunResult last_;
  double fill_s_ = 0;
  bool is_cold_ = false;
};

}  // namespace slipstream
