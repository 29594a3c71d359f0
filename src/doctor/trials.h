#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Tries changed plans, each for one training step, as long as there is time. Changes the trainer's
/// state, which the caller restores.
class Trials {
 public:
  /// `has_time`: called before each trial. `stop`: if it returns true, all later trials are
  /// skipped.
  Trials(Trainer& trainer, std::function<bool()> has_time, std::function<bool()> stop);

  Trainer& trainer() const { return trainer_; }
  /// Returns whether a step with `plan` succeeds; false also if it was not tried. Throws
  /// DeviceLost.
  bool trains(const Plan& plan, const std::string& what);
  /// The `what` of each trial that there was no time for.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  Trainer& trainer_;
  std::function<bool()> has_time_, stop_;
  std::vector<std::string> left_out_;
};

}  // namespace slipstream
