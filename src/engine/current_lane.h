#pragma once

#include <memory>

#include "slipstream/engine/context.h"

namespace slipstream {

/// Makes a lane the calling thread's current lane during the lifetime of this object. On a GPU, the
/// lane's stream is the current stream during that time.
class CurrentLane {
 public:
  /// `lane` is one of `context` or of one of its forks.
  CurrentLane(Context& context, Lane& lane);
  ~CurrentLane();
  /// Returns the most recently created object that is still alive on this thread; nullptr if there
  /// is none.
  static const CurrentLane* innermost();
  /// Returns true if the lane's stream is still the current one. Always true on a CPU.
  bool is_current() const;
  Context& context() const { return context_; }
  Lane& lane() const { return lane_; }
  CurrentLane(const CurrentLane&) = delete;
  CurrentLane& operator=(const CurrentLane&) = delete;

 private:
  struct Impl;
  Context& context_;
  Lane& lane_;
  const CurrentLane* outer_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream
