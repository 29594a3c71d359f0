#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "core/sync.h"

namespace slipstream {

/// "[#####     ] 5/10 shards" on standard error: a live line on a terminal, elsewhere a line every
/// few seconds and the last one. Where the reader of standard output has gone away, as `head` does,
/// nothing of it is left at the end.
class PartsLine {
 public:
  explicit PartsLine(std::string parts);
  /// Ends the live line, or clears it.
  ~PartsLine();
  PartsLine(const PartsLine&) = delete;
  PartsLine& operator=(const PartsLine&) = delete;

  /// From any thread; where threads overtake each other, what is behind is passed over.
  void update(std::size_t done, std::size_t all) SLIPSTREAM_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string parts_;
  Mutex mutex_;
  std::size_t columns_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;  ///< of the live line
  std::size_t shown_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  bool is_live_ SLIPSTREAM_GUARDED_BY(mutex_) = false;
  Clock::time_point next_draw_ SLIPSTREAM_GUARDED_BY(mutex_);
  Clock::time_point next_log_ SLIPSTREAM_GUARDED_BY(mutex_);
};

}  // namespace slipstream
