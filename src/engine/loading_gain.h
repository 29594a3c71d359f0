#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/engine/result.h"

namespace slipstream {

/// What loading beside the steps gains: how long batches take to load and to train, against how
/// long a step took, all of the same last steps.
class LoadingGain {
 public:
  /// How many steps pass between two looks; the gain is of the last one or two such parts that
  /// tell. The first look comes behind the warm-up.
  static constexpr std::uint64_t kPart = 16;

  static bool is_snapshot_due(std::uint64_t batch) { return (batch + 1) % kPart == 0; }

  /// After a batch that it looks at: the loader's counters and the lanes' times up to here, this
  /// batch's interval included.
  void snapshot(std::uint64_t batch, std::span<const StepCounter> loaded,
                std::span<const LaneResult> lanes);

  /// Nothing where there were too few steps, or where these lived on batches that had been filled
  /// ahead: that is not how the run would go on. A look at the end of a run, when no more batches
  /// are taken, may tell as little; then it is of the looks before.
  std::optional<Gain> gain(std::size_t batch_size, unsigned workers) const;

 private:
  struct LoadSnapshot {
    std::uint64_t batch;
    double end_s;                ///< of the batch
    double loading_s;            ///< of all workers
    std::uint64_t samples;       ///< that were loaded
    std::vector<double> busy_s;  ///< per lane
  };
  static std::optional<Gain> between(const LoadSnapshot& from, const LoadSnapshot& to,
                                     std::size_t batch_size, unsigned workers);

  std::vector<LoadSnapshot> snapshots_;  ///< the last ones
};

}  // namespace slipstream
