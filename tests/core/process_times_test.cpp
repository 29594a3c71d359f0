#include "core/process_times.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace slipstream {
namespace {

TEST(ProcessTimes, CpuTimeIsThatOfAllThreads) {
  const auto before = process_times(getpid());
  const double thread_before_s = thread_cpu_s();
  while (thread_cpu_s() - thread_before_s < 0.01) {
  }
  const auto after = process_times(getpid());
  ASSERT_TRUE(before && after);
  EXPECT_GE(after->cpu_s - before->cpu_s, 0.01);
  EXPECT_GE(after->core_wait_s, before->core_wait_s);
}

TEST(ProcessTimes, ProcessThatHasEndedHasNone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(process_times(child));
}

}  // namespace
}  // namespace slipstream
