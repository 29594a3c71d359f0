#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "doctor/turn_time.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Samples/s of a plan's loader whose batches are taken as they come and thrown away, counted
/// sample by sample, so that slow pipelines need not fill a batch for it.
class DrainedRate {
 public:
  DrainedRate(Plan plan, std::optional<HostCut> cut);

  /// For about `time.wanted_s`, and at least some samples of each worker; where these take longer
  /// than `time.most_s`, one that counts. With a cache in the plan, `fill_s` more at most until it
  /// holds what it can.
  void measure(const Trainer& trainer, const TurnTime& time, double fill_s,
               const std::function<bool()>& stop);

  /// The same of a loader that has just been made, with as many workers and no cache.
  void measure(DataLoader& loader, unsigned workers, const TurnTime& time,
               const std::function<bool()>& stop);

  bool is_measured() const { return !block_rates_.empty(); }
  /// Samples/s; n = 0 where nothing is measured.
  Measured rate() const;
  /// Host steps, of what was measured.
  const std::vector<StepCounter>& counters() const { return counters_; }
  /// Of the last turn, the samples that were measured.
  const std::vector<StepLaps>& laps() const { return laps_; }
  /// Whether the plan's cache still missed samples when measuring began.
  bool is_cold() const { return is_cold_; }

 private:
  struct Point {
    double at_s;
    std::uint64_t samples;
  };
  void fill_cache(DataLoader& loader, double fill_s, const std::function<bool()>& stop);
  void keep(const std::vector<Point>& points);

  Plan plan_;
  std::optional<HostCut> cut_;
  double seconds_ = 0;
  double samples_ = 0;
  std::vector<double> block_rates_;
  std::vector<StepCounter> counters_;
  std::vector<StepLaps> laps_;
  bool is_cold_ = false;
};

}  // namespace slipstream
