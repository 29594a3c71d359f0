#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <set>

#include "core/fork.h"
#include "core/fork_trial.h"
#include "engine/context_parts.h"
#include "engine/current_lane.h"
#include "engine/delays.h"
#include "engine/forked.h"
#include "slipstream/engine/fork_join.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kForkSteps = 12;
constexpr double kForkDelayUs = 5000;
const Lanes kOneLane = {{"copy", "encode", "train"}};
constexpr ForkMode kModes[] = {ForkMode::streams, ForkMode::one_stream, ForkMode::automatic};

class ForkJoinTest : public EngineTest {
 protected:
  static std::unique_ptr<Trainer> make(const Forked& forked,
                                       const Plan::Numerics& numerics = exact()) {
    return std::make_unique<Trainer>(forked_pipeline(forked), context(), numerics);
  }
  static RunResult train(const Forked& forked, const Plan& plan, const RunOptions& options,
                         const RunHooks& hooks = {}) {
    return run_with(*make(forked, plan.numerics), plan, options, hooks);
  }
  static std::uint64_t compute_one_stream_digest(const Forked& forked,
                                                 std::uint64_t n = kForkSteps) {
    Forked one = forked;
    one.mode = ForkMode::one_stream;
    return train(one, serial_plan(), steps(n)).digest;
  }
};

TEST_F(ForkJoinTest, EveryModeAndPlanGivesOneStreamDigestUnderRandomDelays) {
  std::uint64_t seed = 0;
  for (const bool nested : {false, true}) {
    Forked forked;
    forked.nested = nested;
    const std::uint64_t expected = compute_one_stream_digest(forked, 24);
    for (const ForkMode mode : kModes)
      for (const Lanes& lanes : {kOneLane, kThreeLanes})
        for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
          forked.mode = mode;
          const Plan plan = build_plan(lanes, driver, lanes.size() + 1);
          EXPECT_EQ(train(forked, plan, steps(24), delayed(300, ++seed)).digest, expected)
              << describe(plan) << ", mode " << static_cast<int>(mode) << ", delay seed " << seed;
        }
  }
}

TEST_F(ForkJoinTest, ForkGivesDigestOfCallingTheBranches) {
  Forked plain;
  plain.mode.reset();
  EXPECT_EQ(train(plain, serial_plan(), steps(kForkSteps)).digest, compute_one_stream_digest({}));
}

TEST_F(ForkJoinTest, Bf16DigestIsSameInEveryModeAndDiffersFromFp32) {
  const auto bf16 = exact(Precision::bf16);
  std::set<std::uint64_t> digests;
  for (const ForkMode mode : kModes) {
    Forked forked;
    forked.mode = mode;
    digests.insert(train(forked, build_plan(kThreeLanes, Driver::threaded, 4, bf16),
                         steps(kForkSteps), delayed(300, 5))
                       .digest);
  }
  EXPECT_EQ(digests.size(), 1U);
  EXPECT_NE(*digests.begin(), compute_one_stream_digest({}));
}

/// On CPU lanes the work of a branch has finished before the host continues, so values are right
/// even without waits.
class ForkWaitTest : public ForkJoinTest {
 protected:
  /// Runs without one wait. The stage is delayed before its branches and before its loss, and so is
  /// every branch.
  std::uint64_t run_without(ForkPass pass, ForkWait wait) {
    Lane& lane = get_lane(context(), "train", 2);
    Forked forked;
    forked.before_loss = [&] { delay_lane(lane, kForkDelayUs); };
    ScheduleProbe late;
    late.delay = [&](std::size_t, std::uint64_t, bool first) {
      if (first) delay_lane(lane, kForkDelayUs);
    };
    ForkProbe probe;
    probe.skip = [&](ForkPass p, ForkWait w) { return p == pass && w == wait; };
    probe.delay = [&](Lane& branch, bool first) {
      if (first && wait == ForkWait::join) delay_lane(branch, kForkDelayUs);
    };
    RunHooks hooks;
    hooks.probe = &late;
    hooks.fork_probe = &probe;
    return train(forked, build_plan(kOneLane, Driver::interleaved, 1), steps(kForkSteps), hooks)
        .digest;
  }
};

TEST_F(ForkWaitTest, SkippingAnyWaitChangesTheDigestOnlyOnGpu) {
  const std::uint64_t expected = compute_one_stream_digest({});
  for (const ForkPass pass : {ForkPass::forward, ForkPass::backward})
    for (const ForkWait wait : {ForkWait::fork, ForkWait::join})
      EXPECT_EQ(run_without(pass, wait) != expected, on_gpu())
          << (pass == ForkPass::forward ? "forward, " : "backward, ")
          << (wait == ForkWait::fork ? "fork" : "join");
}

/// The lanes of the trained module's branches are delayed one at a time.
TEST_F(ForkWaitTest, LateBranchDoesNotChangeTheDigest) {
  const std::uint64_t expected = compute_one_stream_digest({});
  for (const char* late : {"branch 0", "branch 1", "branch 2"}) {
    ForkProbe probe;
    std::size_t delays = 0;
    probe.delay = [&](Lane& branch, bool) {
      if (branch.name().find(late) == std::string::npos) return;
      ++delays;
      delay_lane(branch, kForkDelayUs);
    };
    RunHooks hooks;
    hooks.fork_probe = &probe;
    const Plan plan = build_plan(kThreeLanes, Driver::interleaved, 3);
    EXPECT_EQ(train({}, plan, steps(kForkSteps), hooks).digest, expected) << late;
    EXPECT_GE(delays, 4 * kForkSteps);  // a delay before and after each pass, forward and backward
  }
}

class ForkErrorTest : public ForkJoinTest {
 protected:
  struct FailingBackward final : torch::autograd::Function<FailingBackward> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
      return x.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   const torch::autograd::variable_list&) {
      throw std::runtime_error("no way back");
    }
  };
};

TEST_F(ForkErrorTest, BranchErrorNamesStageAndStepAndTrainerResumes) {
  const std::uint64_t expected = compute_one_stream_digest({});
  for (const bool on_the_way_back : {false, true})
    for (const ForkMode mode : {ForkMode::streams, ForkMode::one_stream}) {
      std::uint64_t calls = 0;
      Forked forked;
      forked.mode = mode;
      forked.in_a_branch = [&](const at::Tensor& y) {
        if (calls++ != 5) return y;
        if (on_the_way_back) return FailingBackward::apply(y);
        throw std::runtime_error("no luck");
      };
      const auto one = make(forked);
      const Plan plan = build_plan(kThreeLanes, Driver::threaded, 4);
      EXPECT_THAT(thrown_by([&] { run_with(*one, plan, steps(kForkSteps), delayed(300, 3)); }),
                  AllOf(StartsWith("Error: stage 'train' at step 5: "),
                        HasSubstr(on_the_way_back ? "no way back" : "no luck")));
      EXPECT_EQ(one->position(), 5U);
      EXPECT_EQ(run_with(*one, plan, steps(kForkSteps - 5), delayed(300, 4)).digest, expected);
    }
}

TEST_F(ForkErrorTest, NoBranchesOrUnknownModeIsRefused) {
  EXPECT_EQ(thrown_by([] { ForkJoin(std::vector<ModuleRef>{}); }),
            "Refused: ForkJoin: no branches were given");
  EXPECT_THAT(thrown_by([] { fork_mode_named("stream"); }),
              AllOf(StartsWith("Refused: "), HasSubstr("did you mean 'streams'?")));
}

class ForkMemoryTest : public ForkJoinTest {};

TEST_F(ForkMemoryTest, BranchOutputIsFreedByTheNextStep) {
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  std::vector<Weak> storages;
  Forked forked;
  forked.in_a_branch = [&](const at::Tensor& y) {
    storages.emplace_back(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(y.storage().unsafeGetStorageImpl()));
    if (storages.size() > 1) {
      EXPECT_TRUE(storages[storages.size() - 2].expired());
    }
    return y;
  };
  const auto one = make(forked);
  one->run(build_plan(kThreeLanes, Driver::interleaved, 3), steps(kForkSteps));
  ASSERT_EQ(storages.size(), kForkSteps);
  EXPECT_TRUE(storages.back().expired());
}

TEST_F(ForkMemoryTest, SecondTrainerReusesBranchLanesOfTheContext) {
  Context own(kDevice);
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
  for (int turn = 0; turn < 2; ++turn) {
    Trainer one(forked_pipeline({}), own, plan.numerics);
    one.run(plan, steps(4));
    EXPECT_EQ(get_fork(own, get_lane(own, "encode", 0)).lanes(), 2U);
    EXPECT_EQ(get_fork(own, get_lane(own, "train", 2)).lanes(), 4U);
  }
  EXPECT_EQ(&get_fork(own, get_lane(own, "train", 2)), &get_fork(own, get_lane(own, "train", 2)));
  EXPECT_NE(&get_fork(own, get_lane(own, "train", 2)), &get_fork(own, get_lane(own, "encode", 0)));
}

class ForkChoiceTest : public ForkJoinTest {
 protected:
  static std::vector<Gain> fork_gains(const RunResult& result) {
    std::vector<Gain> forks;
    for (const Gain& gain : result.gains)
      if (gain.part != "loading") forks.push_back(gain);
    return forks;
  }
};

TEST_F(ForkChoiceTest, RequestedModeIsKeptWithoutMeasuring) {
  Forked forked;
  for (const ForkMode mode : {ForkMode::streams, ForkMode::one_stream}) {
    forked.mode = mode;
    const auto forks = fork_gains(train(forked, serial_plan(), steps(4)));
    ASSERT_EQ(forks.size(), 2U);
    EXPECT_EQ(forks[0].part, "encode.branches.fork");
    EXPECT_EQ(forks[1].part, "train.branches.fork");
    EXPECT_EQ(forks[1].chosen, mode == ForkMode::streams ? "streams" : "one stream");
    EXPECT_EQ(forks[1].reason, "requested");
    EXPECT_EQ(forks[1].measured.n, 0U);
  }
}

TEST_F(ForkChoiceTest, AutomaticMeasuresBothModesAndKeepsTheFaster) {
  Forked forked;
  forked.mode = ForkMode::automatic;
  const auto forks = fork_gains(train(forked, serial_plan(), steps(40)));
  ASSERT_EQ(forks.size(), 2U);
  for (const Gain& fork : forks) {
    EXPECT_EQ(fork.measured.n, ForkTrial::kMeasuredCalls);
    EXPECT_GE(fork.predicted.value, 1);
    // up to three branches overlap; events have a coarse clock
    EXPECT_LE(fork.predicted.value, 3.2);
    const bool streams = on_gpu() && fork.measured.value > 1;
    EXPECT_EQ(fork.chosen, streams ? "streams" : "one stream");
    const bool differ = fork.measured.low > 1 || fork.measured.high < 1;
    EXPECT_EQ(fork.reason, !on_gpu() ? "on a CPU branches run one after the other"
                           : differ  ? "faster"
                                     : "the difference is within the noise");
  }
}

TEST_F(ForkChoiceTest, AutomaticWithTooFewStepsKeepsOneStream) {
  Forked forked;
  forked.mode = ForkMode::automatic;
  const auto forks = fork_gains(train(forked, serial_plan(), steps(2)));
  EXPECT_EQ(forks[1].chosen, "one stream");
  EXPECT_EQ(forks[1].reason, on_gpu() ? "too few calls to measure both"
                                      : "on a CPU branches run one after the other");
  EXPECT_EQ(forks[1].measured.n, 0U);
}

TEST_F(ForkChoiceTest, BranchesThatShareAParameterOrABufferStayOnOneStream) {
  const auto make_fork = [](const ModuleRef& a, const ModuleRef& b, ForkMode mode) {
    return ForkJoin(std::vector<ModuleRef>{a, b}, mode);
  };
  const torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(4).affine(false));
  const torch::nn::Linear linear(4, 4);
  torch::nn::Linear tied(4, 4);
  tied->bias = tied->register_parameter("tied", linear->bias);
  const CurrentLane current(context(), get_lane(context(), "train", 2));
  for (const ForkMode mode : {ForkMode::streams, ForkMode::automatic})
    for (const auto& [a, b] : std::vector<std::pair<ModuleRef, ModuleRef>>{
             {norm, norm}, {linear, linear}, {linear, tied}}) {
      ForkJoin shared = make_fork(a, b, mode);
      shared->to(c10::Device(kDevice));
      ForkProbe probe;
      probe.delay = [](Lane& branch, bool) { ADD_FAILURE() << branch.name(); };
      set_fork_probe(context(), &probe);
      for (int turn = 0; turn < 20; ++turn)
        shared->forward(at::ones({2, 4}, at::TensorOptions(c10::Device(kDevice))));
      set_fork_probe(context(), nullptr);
      EXPECT_EQ(shared->gain().chosen, "one stream");
      EXPECT_EQ(shared->gain().reason, "branches share a parameter or a buffer");
      EXPECT_EQ(shared->gain().measured.n, 0U);
    }
  EXPECT_EQ(make_fork(norm, linear, ForkMode::streams)->gain().chosen, "streams");
}

}  // namespace
}  // namespace slipstream::test
