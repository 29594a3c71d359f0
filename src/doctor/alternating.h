#pragma once

#include <functional>
#include <vector>

#include "doctor/examined_loop.h"

namespace slipstream {

struct Alternating {
  double budget_s = 0;                 ///< for all rates together
  double turn_s = 0;                   ///< time of a turn that gives a useful rate
  double step_s = 0;                   ///< known lower bound of a step's time; 0: not known
  bool is_single = false;              ///< only one round, because each rate first fills a cache
  std::function<bool()> stopped = {};  ///< if it returns true, no further turn begins
};

/// Measures rates one after the other, in up to 3 rounds, so that a change of the machine's speed
/// affects all of them. Each rate gets one turn even if the budget is used up.
void measure_alternately(const std::vector<RateInTurns>& rates, const Alternating& alternating);

}  // namespace slipstream
