#pragma once

#include <functional>

#include "engine/draw_check.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// A trainer and PyTorch's default generators as they were when this was made: put back on demand,
/// and at the end if it was not for good before.
class Untouched {
 public:
  explicit Untouched(Trainer& trainer);
  ~Untouched();
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

  void put_back();
  void put_back_for_good();

 private:
  Trainer& trainer_;
  std::function<void()> put_unsaved_back_;
  State state_;
  GeneratorStates generators_;
  bool is_over_ = false;
};

}  // namespace slipstream
