#include "ops/best_code.h"

namespace slipstream {

bool has_avx2_and_fma() {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return kHas;
#else
  return false;
#endif
}

}  // namespace slipstream
