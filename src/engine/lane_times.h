#pragma once

#include <span>
#include <vector>

#include "slipstream/core/lane.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// Computes from marks when the lanes of a run were busy.
class LaneTimes {
 public:
  explicit LaneTimes(std::size_t lanes) : previous_end_(lanes), end_s_(lanes) {}

  /// Adds the next batch, which all lanes have finished, to the results in `lanes`.
  void add(std::uint64_t step, std::span<const Mark* const> begin, std::span<const Mark* const> end,
           std::vector<LaneResult>& lanes);
  /// Returns when each lane ended the last batch, in seconds since the first lane began the first
  /// batch.
  const std::vector<double>& end_s() const { return end_s_; }

 private:
  std::vector<const Mark*> previous_end_;
  std::vector<double> end_s_;
};

}  // namespace slipstream
