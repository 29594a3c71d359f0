#pragma once

namespace slipstream {

/// log and exp by basic IEEE operations alone, so that every machine, compiler and C library gives
/// the same bits (the libraries' own differ in the last). Error below 1e-12 of the result.
/// REQUIRES: x is finite; for log above 0
double exact_log(double x);
double exact_exp(double x);

}  // namespace slipstream
