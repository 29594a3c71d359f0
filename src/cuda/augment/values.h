#pragma once

#include "cuda/augment/program.h"

namespace slipstream::augment {

/// What is known of the values before a step.
struct Values {
  double most;      ///< no value is larger in size
  bool are_coarse;  ///< those that are not 0 are no smaller than 2^-60
};

Values initial_values(Range range);  ///< of a pass' source

/// Says of a step's divisors whether what they divide is usual.
void set_divisors(const Values& values, ProgramStep& step);
/// From before a step to behind it.
void advance(const ProgramStep& step, Values& values);

}  // namespace slipstream::augment
