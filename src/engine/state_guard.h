#pragma once

#include <functional>

#include "engine/draw_check.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// A trainer and PyTorch's default generators as they were when this was made: put back on demand,
/// and at the end if it was not for good before.
class StateGuard {
 public:
  explicit StateGuard(Trainer& trainer);
  ~StateGuard();
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

  void restore();
  void restore_and_release();

 private:
  Trainer& trainer_;
  std::function<void()> restore_unsaved_;
  State state_;
  GeneratorStates generators_;
  bool is_over_ = false;
};

}  // namespace slipstream
