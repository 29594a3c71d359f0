#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "core/sync.h"

namespace slipstream {

/// Shows progress as "[#####     ] 5/10 shards" on standard error: on a terminal as a live line,
/// otherwise as a line every few seconds and at the end. If the reader of standard output has
/// ended, as `head` does, the line is cleared at the end.
class PartsLine {
 public:
  explicit PartsLine(std::string parts);
  /// Ends the live line, or clears it.
  ~PartsLine();
  PartsLine(const PartsLine&) = delete;
  PartsLine& operator=(const PartsLine&) = delete;

  /// Updates the line. Any thread may call this. A smaller number than the last one, from a slower
  /// thread, is ignored.
  void update(std::size_t done, std::size_t all) SLIPSTREAM_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string parts_;
  Mutex mutex_;
  std::size_t columns_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;  ///< width of the live line
  std::size_t shown_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  bool is_live_ SLIPSTREAM_GUARDED_BY(mutex_) = false;
  Clock::time_point next_draw_ SLIPSTREAM_GUARDED_BY(mutex_);
  Clock::time_point next_log_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
