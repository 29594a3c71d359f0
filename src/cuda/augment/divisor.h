#pragma once

#include "cuda/augment/program.h"

namespace slipstream::augment {

/// For a positive float that is not too large or too small to use the inverse of; else only
/// `value` is set.
Divisor make_divisor(float value);

/// Whether summed_quotient(x) is x / value, rounded once, for all x that leave no subnormal on the
/// way.
bool is_exact(const Divisor& divisor);

}  // namespace slipstream::augment
