#include "transforms/best_code.h"

#include <gtest/gtest.h>

namespace slipstream {
namespace {

TEST(BestCode, HasAvx2AndFmaMatchesTheCpu) {
#if defined(__x86_64__)
  const bool is_there = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  const bool is_there = false;
#endif
  EXPECT_EQ(has_avx2_and_fma(), is_there);
}

TEST(BestCode, RunsTheFunctionOnce) {
  int calls = 0;
  with_best_code([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace slipstream
