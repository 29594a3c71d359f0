#pragma once

#include "cuda/augment/program.h"

namespace slipstream::augment {

/// Prepares a division. The inverse is used only for a positive float that is neither too large nor
/// too small; otherwise only `value` is set.
Divisor make_divisor(float value);

/// Returns true if summed_quotient(x) equals x / value, rounded once, for all x for which no
/// intermediate result is subnormal.
bool is_exact(const Divisor& divisor);

}  // namespace slipstream::augment
