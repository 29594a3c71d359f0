#include <gtest/gtest.h>

#include "transforms/best_code.h"

// Replaces a function of the library, so that the tests in this program run as on a CPU without
// AVX2. They compare bit for bit with plain loops; therefore both forms give equal bits.
namespace slipstream {

bool has_avx2_and_fma() { return false; }
bool has_avx512() { return false; }

TEST(PlainCode, HasAvx2AndFmaIsFalse) {
  bool is_best = true;
  with_best_code([&] { is_best = has_avx2_and_fma(); });
  EXPECT_FALSE(is_best);
}

}  // namespace slipstream
