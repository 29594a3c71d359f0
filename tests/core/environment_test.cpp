#include "core/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

TEST(Environment, ProbeFillsFieldsOfThisMachine) {
  const Environment environment = probe_environment("2.11.0", std::nullopt);
  EXPECT_THAT(environment.time,
              MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
  EXPECT_THAT(environment.slipstream, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(environment.revision, MatchesRegex("[-._+0-9A-Za-z]+"));
  EXPECT_THAT(environment.compiler, MatchesRegex("(g\\+\\+|clang) .*[0-9].*"));
  EXPECT_EQ(environment.libtorch, "2.11.0");
  EXPECT_THAT(environment.os, HasSubstr("Linux"));
  EXPECT_THAT(environment.cpu, Not(IsEmpty()));
  EXPECT_GE(environment.logical_cores, 1u);
  EXPECT_LE(environment.logical_cores, std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_GT(environment.memory_bytes, 1u << 20);
  EXPECT_FALSE(environment.gpu.has_value());
}

TEST(Environment, KeepsTheGivenGpuInfo) {
  const Environment environment = probe_environment("", GpuInfo{"A GPU", "1", "2", "9.0", 3});
  ASSERT_TRUE(environment.gpu.has_value());
  EXPECT_EQ(environment.gpu->name, "A GPU");
}

TEST(Environment, WarnsWhenLoadExceedsCores) {
  EXPECT_EQ(busy_warning(1.3, 2), "");
  EXPECT_EQ(busy_warning(2, 2), "");
  EXPECT_EQ(busy_warning(1.5, 1), "the machine was busy (load 1.5 on 1 core): times are noisy");
  EXPECT_EQ(busy_warning(2.5, 2), "the machine was busy (load 2.5 on 2 cores): times are noisy");
}

TEST(Environment, OsOmitsTheHostName) {
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  EXPECT_THAT(probe_environment("", std::nullopt).os, Not(HasSubstr(host)));
}

}  // namespace
}  // namespace slipstream
