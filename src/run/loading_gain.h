#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/result.h"

namespace slipstream {

/// What loading beside the steps gains: how long batches take to load and to train, against how
/// long a step took, all of the same last steps.
class LoadingGain {
 public:
  using Clock = std::chrono::steady_clock;

  /// How many steps pass between two looks; the gain is of the last one or two such parts. The
  /// first look comes behind the warm-up.
  static constexpr std::uint64_t kPart = 16;

  static bool looks_at(std::uint64_t batch) { return (batch + 1) % kPart == 0; }

  /// After a batch that it looks at: the loader's counters and the lanes' times up to here.
  void look(std::uint64_t batch, std::span<const StepCounter> loaded,
            std::span<const LaneResult> lanes, Clock::time_point now = Clock::now());

  /// Nothing where there were too few steps, or where these lived on batches that had been filled
  /// ahead: that is not how the run would go on.
  std::optional<Gain> gain(std::size_t batch_size, unsigned workers) const;

 private:
  struct Look {
    std::uint64_t batch;
    Clock::time_point time;
    double loading_s;            ///< of all workers
    std::uint64_t samples;       ///< that were loaded
    std::vector<double> busy_s;  ///< per lane
  };
  std::vector<Look> looks_;  ///< at most three
};

}  // namespace slipstream
