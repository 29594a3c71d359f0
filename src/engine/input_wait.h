#pragma once

#include <algorithm>

namespace slipstream {

/// Returns how long the device waited for input during `elapsed_s`: at most the time that the host
/// was blocked on the loader, and at most the time that the last lane was idle. Both limits are
/// needed: the device may still have enqueued work while the host is blocked, and a lane may be
/// idle for other reasons.
inline double input_wait_s(double blocked_s, double busy_s, double elapsed_s) {
  return std::clamp(std::min(blocked_s, elapsed_s - busy_s), 0.0, std::max(0.0, elapsed_s));
}

inline double input_wait_share(double blocked_s, double busy_s, double elapsed_s) {
  return elapsed_s > 0 ? input_wait_s(blocked_s, busy_s, elapsed_s) / elapsed_s : 0;
}

}  // namespace slipstream
