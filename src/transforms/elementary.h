#pragma once

namespace slipstream {

/// log and exp computed with basic IEEE operations only, so that every machine, compiler and C
/// library gives the same bits (C libraries differ in the last bit). The relative error is below
/// 1e-12.
/// REQUIRES: x is finite; above 0 for log
double exact_log(double x);
double exact_exp(double x);

struct SineCosine {
  double sine;
  double cosine;
};

/// Sine and cosine of an angle in degrees, computed the same way. The error is below 1e-15, and 0
/// at multiples of 90.
SineCosine exact_sine_cosine(double degrees);

}  // namespace slipstream
