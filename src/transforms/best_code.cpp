#include "transforms/best_code.h"

namespace slipstream {

bool has_avx2_and_fma() {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return kHas;
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  static const bool kHas =
      has_avx2_and_fma() && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
  return kHas;
#else
  return false;
#endif
}

}  // namespace slipstream
