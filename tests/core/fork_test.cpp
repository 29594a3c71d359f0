#include "core/fork.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "core/fake_lane.h"

namespace slipstream {
namespace {

using test::Counter;
using test::FakeLane;

class ForkTest : public testing::Test {
 protected:
  static FakeLane& fake(Lane& lane) { return dynamic_cast<FakeLane&>(lane); }

  void leave_out(ForkPass pass, ForkWait wait) {
    probe_.skip = [=](ForkPass p, ForkWait w) { return p == pass && w == wait; };
  }

  /// Returns the value that a branch reads. The home lane writes 1 only after it is allowed to;
  /// without a wait the branch has read 0 before that.
  int seen_by_branch(ForkPass pass, bool waits) {
    Counter allowed;
    int value = 0, seen = -1;
    home_.enqueue([&] {
      allowed.await(1, "the home lane's turn");
      value = 1;
    });
    fork_.run(1, pass, &probe_, [&](std::size_t, Lane& lane) {
      fake(lane).enqueue([&] { seen = value; });
      if (!waits) lane.synchronize();
    });
    allowed.add();
    home_.synchronize();
    return seen;
  }

  /// Returns the value that the home lane reads after the last of three branches has written it; 0
  /// without a wait.
  int seen_by_home(ForkPass pass, bool waits) {
    Counter allowed;
    int value = 0, seen = -1;
    Lane* last = nullptr;
    fork_.run(3, pass, &probe_, [&](std::size_t branch, Lane& lane) {
      if (branch < 2) return;
      last = &lane;
      fake(lane).enqueue([&] {
        allowed.await(1, "the branch's turn");
        value = 1;
      });
    });
    home_.enqueue([&] { seen = value; });
    if (!waits) home_.synchronize();
    allowed.add();
    last->synchronize();
    home_.synchronize();
    return seen;
  }

  FakeLane home_{"home"};
  std::size_t made_ = 0;
  ForkProbe probe_;
  Fork fork_{home_, [this](std::size_t branch) {
               EXPECT_EQ(branch, made_++);
               return std::make_unique<FakeLane>("branch");
             }};
};

constexpr ForkPass kPasses[] = {ForkPass::forward, ForkPass::backward};

TEST_F(ForkTest, BranchSeesEarlierHomeLaneWork) {
  for (const ForkPass pass : kPasses)
    for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(seen_by_branch(pass, true), 1);
}

TEST_F(ForkTest, BranchWithoutForkWaitRunsTooEarly) {
  for (const ForkPass pass : kPasses) {
    leave_out(pass, ForkWait::fork);
    EXPECT_EQ(seen_by_branch(pass, false), 0);
  }
}

TEST_F(ForkTest, HomeLaneSeesWorkOfAllBranches) {
  for (const ForkPass pass : kPasses)
    for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(seen_by_home(pass, true), 1);
}

TEST_F(ForkTest, HomeLaneWithoutJoinWaitRunsTooEarly) {
  for (const ForkPass pass : kPasses) {
    leave_out(pass, ForkWait::join);
    EXPECT_EQ(seen_by_home(pass, false), 0);
  }
}

TEST_F(ForkTest, HomeLaneWaitsForStartedBranchesAfterAThrow) {
  Counter allowed;
  int values[2] = {0, 0}, seen = -1;
  std::vector<std::size_t> called;
  EXPECT_THROW(fork_.run(3, ForkPass::forward, nullptr,
                         [&](std::size_t branch, Lane& lane) {
                           called.push_back(branch);
                           fake(lane).enqueue([&, branch] {
                             allowed.await(1, "the branches' turn");
                             values[branch] = 1;
                           });
                           if (branch == 1) throw std::runtime_error("no luck");
                         }),
               std::runtime_error);
  EXPECT_EQ(called, (std::vector<std::size_t>{0, 1}));
  home_.enqueue([&] { seen = values[0] + values[1]; });
  allowed.add();
  home_.synchronize();
  EXPECT_EQ(seen, 2);
}

TEST_F(ForkTest, LanesAreCreatedOnDemandAndReused) {
  std::vector<const Lane*> first, second;
  const auto note = [](std::vector<const Lane*>& lanes) {
    return [&lanes](std::size_t, Lane& lane) { lanes.push_back(&lane); };
  };
  EXPECT_EQ(fork_.lanes(), 0U);
  fork_.run(2, ForkPass::forward, nullptr, note(first));
  EXPECT_EQ(fork_.lanes(), 2U);
  fork_.run(3, ForkPass::backward, nullptr, note(second));
  fork_.run(1, ForkPass::forward, nullptr, note(second));
  EXPECT_EQ(fork_.lanes(), 3U);
  EXPECT_EQ(made_, 3U);
  EXPECT_EQ(second[0], first[0]);
  EXPECT_EQ(second[1], first[1]);
  EXPECT_EQ(second[3], first[0]);
}

TEST_F(ForkTest, DelayIsCalledBeforeAndAfterEachBranch) {
  std::vector<int> order;
  probe_.delay = [&](Lane&, bool first) { order.push_back(first ? 1 : 3); };
  fork_.run(2, ForkPass::forward, &probe_, [&](std::size_t, Lane&) { order.push_back(2); });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 1, 2, 3}));
}

}  // namespace
}  // namespace slipstream
