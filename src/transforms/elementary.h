#pragma once

namespace slipstream {

/// log and exp by basic IEEE operations alone, so that every machine, compiler and C library gives
/// the same bits (the libraries' own differ in the last). Error below 1e-12 of the result.
/// REQUIRES: x is finite; for log above 0
double exact_log(double x);
double exact_exp(double x);

struct SineCosine {
  double sine;
  double cosine;
};

/// Of an angle in degrees, by the same operations; error below 1e-15, none at multiples of 90.
SineCosine exact_sine_cosine(double degrees);

}  // namespace slipstream
