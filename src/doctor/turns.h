#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "doctor/turn_time.h"
#include "slipstream/core/statistics.h"

namespace slipstream {

/// One figure that is measured in turns.
struct Task {
  std::string what;
  std::function<void(const TurnTime& time)> measure;
  std::string* error;  ///< takes the reason where it cannot be measured
  bool is_essential;
  double weight;  ///< of the time
  std::function<Measured()> figure;
  double turn_s = 0;  ///< that the shortest turn took; 0: none yet

  bool is_attempted() const { return turn_s > 0 || !error->empty(); }
};

struct Turns {
  double budget_s = 0;
  std::function<double()> left;  ///< seconds
  std::function<bool()> stopped;
  std::function<void(Task& task, const TurnTime& time)> attempt;
  /// Asked once, when all were tried: tasks whose figures cannot all be right.
  std::function<std::vector<Task*>()> doubtful = {};
};

/// Measures what all else rests on, and then what is least sure, again and again, until all is sure
/// or the time is used up; what is doubtful once more. Each of the first gets an equal part of what
/// is left at most, however long the fewest steps that tell take. What there was no time for has
/// that as its error.
void measure_in_turns(std::deque<Task>& tasks, const Turns& turns);

}  // namespace slipstream
