#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "doctor/turn_time.h"
#include "slipstream/core/statistics.h"

namespace slipstream {

/// One value that is measured in several turns.
struct Task {
  std::string what;
  std::function<void(const TurnTime& time)> measure;
  std::string* error;  ///< receives the reason if the value cannot be measured
  bool is_essential;
  double weight;  ///< share of the time, relative to the other tasks
  std::function<Measured()> figure;
  double turn_s = 0;                   ///< duration of the shortest turn; 0: none yet
  std::function<void()> restart = {};  ///< forgets all turns; may be empty

  bool is_attempted() const { return turn_s > 0 || !error->empty(); }
};

struct Turns {
  double budget_s = 0;
  std::function<double()> left;  ///< returns the remaining seconds
  std::function<bool()> stopped;
  std::function<void(Task& task, const TurnTime& time)> attempt;
  /// Called after each turn until it returns a task whose value others contradict; nullptr: none.
  std::function<Task*()> doubtful = {};
};

/// Measures the essential tasks first, until their intervals are narrow enough for a verdict or 60
/// % of the remaining time is used. Then it measures repeatedly the least certain value, until all
/// are certain or the time is used up. A doubtful task is measured anew, once. Each essential task
/// gets at most an equal part of the remaining time, so that a slow one cannot leave the others
/// without any. A task that there was no time for gets this as its error.
void measure_in_turns(std::deque<Task>& tasks, const Turns& turns);

}  // namespace slipstream
