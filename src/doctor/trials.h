#pragma once

#include <functional>
#include <string>
#include <vector>

#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Changed plans, each tried for one step of training while there is time for it. Changes the
/// trainer's state.
class Trials {
 public:
  /// `has_time`: asked ahead of each; `stop`: true ends all.
  Trials(Trainer& trainer, std::function<bool()> has_time, std::function<bool()> stop);

  Trainer& trainer() const { return trainer_; }
  /// Whether `plan` trains; false also where that was not tried. Throws DeviceLost.
  bool trains(const Plan& plan, const std::string& what);
  /// What there was no time for, as trains() was told it.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  Trainer& trainer_;
  std::function<bool()> has_time_, stop_;
  std::vector<std::string> left_out_;
};

}  // namespace slipstream
