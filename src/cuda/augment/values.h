#pragma once

#include "cuda/augment/program.h"

namespace slipstream::augment {

/// Known properties of the values before a step.
struct Values {
  double most;      ///< upper bound of all magnitudes
  bool are_coarse;  ///< true if all values other than 0 have a magnitude of at least 2^-60
};

Values initial_values(Range range);  ///< values of a pass's source

/// Sets Divisor::is_usual and is_signed of a step's divisors, from what is known of the dividends.
void set_divisors(const Values& values, ProgramStep& step);
/// Updates `values` from before to after a step.
void advance(const ProgramStep& step, Values& values);

}  // namespace slipstream::augment
