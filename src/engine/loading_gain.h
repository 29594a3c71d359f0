#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/engine/result.h"

namespace slipstream {

/// Measures the gain of loading while steps run: it compares the time to load and to train a batch
/// with the duration of a step, all over the same last steps.
class LoadingGain {
 public:
  /// Number of steps between two snapshots. The gain covers the last one or two such intervals that
  /// give a valid measurement. The first snapshot is after the warm-up.
  static constexpr std::uint64_t kPart = 16;

  static bool is_snapshot_due(std::uint64_t batch) { return (batch + 1) % kPart == 0; }

  /// Called after a batch for which is_snapshot_due() is true, with the loader's counters and the
  /// lanes' times up to and including this batch.
  void snapshot(std::uint64_t batch, std::span<const StepCounter> loaded,
                std::span<const LaneResult> lanes);

  /// Returns no value if there were too few steps, or if these steps mainly used batches that had
  /// been prefetched, because the run could not continue like that. A snapshot at the end of a run,
  /// when no more batches are taken, may be invalid for the same reason; earlier snapshots are then
  /// used.
  std::optional<Gain> gain(std::size_t batch_size, unsigned workers) const;

 private:
  struct LoadSnapshot {
    std::uint64_t batch;
    double end_s;                ///< end of the batch
    double loading_s;            ///< time of all workers together
    std::uint64_t samples;       ///< samples loaded so far
    std::vector<double> busy_s;  ///< busy time of each lane
  };
  static std::optional<Gain> between(const LoadSnapshot& from, const LoadSnapshot& to,
                                     std::size_t batch_size, unsigned workers);

  std::vector<LoadSnapshot> snapshots_;  ///< only the latest ones are kept
};

}  // namespace slipstream
