#pragma once

#include <functional>
#include <limits>

namespace slipstream {

/// How long one turn may take. A rate is measured in several turns.
struct TurnTime {
  TurnTime(double wanted, double most = std::numeric_limits<double>::infinity(), double step = 0)
      : wanted_s(wanted), most_s(most), step_s(step) {}

  double wanted_s;  ///< approximate; exceeded if the fewest useful steps or samples take longer
  double most_s;    ///< limit; exceeded only if a single value takes longer
  double step_s;    ///< known lower bound of a step's time; 0: not known
  /// Called with the lower bound of a step's time if step_s was 0, before further steps run.
  std::function<void(double step_s)> learned = {};
};

}  // namespace slipstream
