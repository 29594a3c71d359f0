#pragma once

#include <functional>
#include <limits>

namespace slipstream {

/// How long one turn of measuring may take.
struct TurnTime {
  TurnTime(double wanted, double most = std::numeric_limits<double>::infinity(), double step = 0)
      : wanted_s(wanted), most_s(most), step_s(step) {}

  double wanted_s;  ///< about, and longer where the fewest steps or samples that tell take longer
  double most_s;    ///< but not longer than this, but for what one figure takes
  double step_s;    ///< that a step is known to take at least; 0: nothing is known
  /// Told what a step takes at least where nothing was known, before more than the fewest are run.
  std::function<void(double step_s)> learned = {};
};

}  // namespace slipstream
