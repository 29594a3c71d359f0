#pragma once

#include <memory>

#include "slipstream/engine/context.h"

namespace slipstream {

/// Makes a lane the calling thread's while it lives, with its stream the current one (CUDA).
class CurrentLane {
 public:
  /// `lane` is one of `context` or of one of its forks.
  CurrentLane(Context& context, Lane& lane);
  ~CurrentLane();
  /// The last one made of those that live on this thread; nullptr where there is none.
  static const CurrentLane* innermost();
  /// Whether its stream is the current one still; on a CPU it is.
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
