#pragma once

#include <functional>

#include "engine/draw_check.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Saves the state of a trainer and of PyTorch's default generators at construction. restore()
/// restores it, and so does the destructor, unless restore_and_release() was called before.
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
