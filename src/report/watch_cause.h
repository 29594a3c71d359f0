#pragma once

#include <string>
#include <vector>

#include "report/watch.h"

namespace slipstream {

/// The group of a host step of this name: raw_reading, decode or transforms.
Culprit group_of(const std::string& step);

/// Time in each step for a sample that came out of the last one, s; empty where none did.
std::vector<double> costs_of_a_sample(const std::vector<StepCounter>& host);

/// What was counted while a run starved.
struct WatchEvidence {
  std::vector<StepCounter> host;
  double seconds = 0;
  std::vector<double> fed_costs;  ///< as costs_of_a_sample gave them before; may be empty
  WatchOptions options;
};
WatchCause cause_of(const WatchEvidence& evidence);
/// Half a sentence.
std::string text_of(const WatchCause& cause);

}  // namespace slipstream
