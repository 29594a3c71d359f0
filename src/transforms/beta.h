#pragma once

#include "slipstream/core/philox.h"

namespace slipstream {

/// Generates a number from Beta(alpha, alpha), using three random words: T of Student's t
/// distribution with 2 alpha degrees of freedom (Bailey, "Polar generation of random variates with
/// the t-distribution", Mathematics of Computation 62, 1994), then 1/2 + T / (2 sqrt(2 alpha +
/// T^2)) (Devroye, Non-Uniform Random Variate Generation, 1986, IX.3). Every machine gives the same
/// bits.
/// REQUIRES: 0 < alpha <= 1000
double symmetric_beta(double alpha, RandomStream& stream);

}  // namespace slipstream
