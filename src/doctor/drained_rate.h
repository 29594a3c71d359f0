#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "doctor/turn_time.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Measures samples/s of a plan's loader whose batches are discarded as soon as they are ready. It
/// counts samples rather than batches, so that a slow loader need not complete a batch first.
class DrainedRate {
 public:
  DrainedRate(Plan plan, std::optional<HostCut> cut);

  /// Measures a new loader for about `time.wanted_s`, and until each worker has produced some
  /// samples. If this takes longer than `time.most_s`, one counted sample is enough. If the plan
  /// has a cache, up to `fill_s` seconds before the measurement fill it. Waits until this is done.
  void measure(const Trainer& trainer, const TurnTime& time, double fill_s,
               const std::function<bool()>& stop);

  /// Measures a loader that has just been created with this number of workers and without a cache.
  void measure(DataLoader& loader, unsigned workers, const TurnTime& time,
               const std::function<bool()>& stop);

  bool is_measured() const { return !block_rates_.empty(); }
  /// Samples/s; n = 0 if nothing has been measured.
  Measured rate() const;
  /// Counters of the host steps, over all measured turns.
  const std::vector<StepCounter>& counters() const { return counters_; }
  /// Times of single samples of the last turn.
  const std::vector<StepLaps>& laps() const { return laps_; }
  /// Whether the plan's cache was not yet full when the measurement began.
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
