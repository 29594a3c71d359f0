#pragma once

#include <vector>

#include "slipstream/core/statistics.h"

namespace slipstream {

/// Samples/s of several turns: the mean over all of them, with the spread of blocks of each turn.
class BlockRate {
 public:
  /// How many samples there had been at a time.
  struct Point {
    double at_s;
    double samples;
  };

  /// Takes the points of one turn. Fewer than two say nothing.
  void add(const std::vector<Point>& points);
  bool is_measured() const { return !block_rates_.empty(); }
  /// n = 0 where nothing is measured.
  Measured rate() const;

 private:
  double seconds_ = 0;
  double samples_ = 0;
  std::vector<double> block_rates_;
};

}  // namespace slipstream
