#pragma once

#include <span>
#include <vector>

#include "slipstream/core/lane.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// When the lanes of a run were busy, from their marks.
class LaneTimes {
 public:
  explicit LaneTimes(std::size_t lanes) : previous_end_(lanes), end_s_(lanes) {}

  /// Adds a batch that all lanes have finished, the next one, to their results.
  void add(std::uint64_t step, std::span<const Mark* const> begin, std::span<const Mark* const> end,
           std::vector<LaneResult>& lanes);
  /// When each lane ended the last batch, since the first lane began the first one.
  const std::vector<double>& end_s() const { return end_s_; }

 private:
  std::vector<const Mark*> previous_end_;
  std::vector<double> end_s_;
};

}  // namespace slipstream
