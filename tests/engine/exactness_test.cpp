#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>

#include "core/lane_threads.h"
#include "core/schedule.h"
#include "engine/context_parts.h"
#include "engine/engine.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

class ExactnessTest : public EngineTest {};

constexpr std::uint64_t kExactSteps = 24;

/// Returns plans with every grouping of the three device steps, every driver, and three depths.
std::vector<Plan> all_plans(const Plan::Numerics& numerics) {
  std::vector<Plan> plans;
  unsigned workers = 1;
  for (const Lanes& lanes :
       {kThreeLanes, Lanes{{"copy", "encode"}, {"train"}}, Lanes{{"copy"}, {"encode", "train"}},
        Lanes{{"copy", "encode", "train"}}})
    for (const Driver driver : {Driver::interleaved, Driver::threaded})
      for (std::size_t more : {0, 1, 2}) {
        Plan plan = build_plan(lanes, driver, lanes.size() + more, numerics);
        plan.schedule.loader.num_workers = workers;
        plan.schedule.run_ahead = 1 + more;
        workers = workers == 1 ? 2 : workers == 2 ? 8 : 1;
        plans.push_back(plan);
      }
  return plans;
}

TEST_F(ExactnessTest, EveryPlanGivesTheSerialDigestUnderRandomDelays) {
  for (const char* optimizer : {"momentum", "adamw"}) {
    const Tiny tiny{.optimizer = optimizer};
    const RunResult serial = fresh_run(tiny, serial_plan(), steps(kExactSteps));
    ASSERT_EQ(serial.losses.size(), kExactSteps);
    ASSERT_NE(serial.losses.front(), serial.losses.back());
    std::uint64_t seed = 0;
    for (const Plan& plan : all_plans(exact())) {
      SCOPED_TRACE(std::string(optimizer) + ", " + describe(plan) + ", delay seed " +
                   std::to_string(++seed));
      const RunResult result = fresh_run(tiny, plan, steps(kExactSteps), delayed(400, seed));
      EXPECT_THAT(result.losses, ElementsAreArray(serial.losses));
      EXPECT_EQ(result.accuracies, serial.accuracies);
      EXPECT_EQ(result.digest, serial.digest);
    }
  }
}

TEST_F(ExactnessTest, PipelinedPlanGivesSerialDigestForManyDelaySeeds) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(kExactSteps)).digest;
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    SCOPED_TRACE("delay seed " + std::to_string(seed));
    const Plan plan = build_plan(kThreeLanes, Driver::threaded, 4);
    EXPECT_EQ(fresh_run({}, plan, steps(kExactSteps), delayed(400, seed)).digest, serial);
  }
}

TEST_F(ExactnessTest, Bf16DigestIsSameInEveryPlanAndDiffersFromFp32) {
  const auto bf16 = exact(Precision::bf16);
  Plan serial = serial_plan();
  serial.numerics = bf16;
  const RunResult expected = fresh_run({}, serial, steps(kExactSteps));
  EXPECT_NE(expected.digest, fresh_run({}, serial_plan(), steps(kExactSteps)).digest);
  for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
    const Plan plan = build_plan(kThreeLanes, driver, 4, bf16);
    const RunResult result = fresh_run({}, plan, steps(kExactSteps), delayed(400, 7));
    EXPECT_EQ(result.losses, expected.losses) << describe(plan);
    EXPECT_EQ(result.digest, expected.digest) << describe(plan);
  }
}

TEST_F(ExactnessTest, ContiguousWeightsGiveSerialDigestInPipelinedPlan) {
  Plan::Numerics contiguous = exact();
  contiguous.channels_last = false;
  Plan serial = serial_plan();
  serial.numerics = contiguous;
  const std::uint64_t expected = fresh_run({}, serial, steps(kExactSteps)).digest;
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3, contiguous);
  EXPECT_EQ(fresh_run({}, plan, steps(kExactSteps), delayed(400, 3)).digest, expected);
}

TEST_F(ExactnessTest, OddSizesAndPartialEpochsGiveSerialDigest) {
  const Tiny tiny{.batch_size = 3, .size = 10, .classes = 7, .channels = 5, .samples = 11};
  const std::uint64_t serial = fresh_run(tiny, serial_plan(), steps(kExactSteps)).digest;
  for (unsigned workers : {1U, 2U, 8U}) {
    Plan plan = build_plan(kThreeLanes, Driver::threaded, 4);
    plan.schedule.loader.num_workers = workers;
    EXPECT_EQ(fresh_run(tiny, plan, steps(kExactSteps), delayed(400, workers)).digest, serial)
        << workers;
  }
}

TEST_F(ExactnessTest, DigestDependsOnStepsSeedAndLearningRate) {
  const std::uint64_t digest = fresh_run({}, serial_plan(), steps(kExactSteps)).digest;
  EXPECT_EQ(fresh_run({}, serial_plan(), steps(kExactSteps)).digest, digest);
  EXPECT_NE(fresh_run({}, serial_plan(), steps(kExactSteps - 1)).digest, digest);
  EXPECT_NE(fresh_run({.seed = 2}, serial_plan(), steps(kExactSteps)).digest, digest);
  EXPECT_NE(fresh_run({.lr = 0.0501}, serial_plan(), steps(kExactSteps)).digest, digest);
}

TEST_F(ExactnessTest, SwitchingPlansBetweenRunsGivesSerialDigest) {
  const std::uint64_t whole = fresh_run({}, serial_plan(), steps(30)).digest;
  const Plan pipelined = build_plan(kThreeLanes, Driver::threaded, 4);
  const auto parts = trainer({});
  run_with(*parts, pipelined, steps(10), delayed(400, 1));
  EXPECT_EQ(parts->position(), 10U);
  const RunResult rest = parts->run(serial_plan(), steps(20));
  EXPECT_EQ(rest.first_step, 10U);
  EXPECT_EQ(rest.digest, whole);

  const auto switched = trainer({});
  std::uint64_t seed = 40;
  for (const Plan& plan : all_plans(exact())) {
    if (switched->position() == 30) break;
    run_with(*switched, plan, steps(2), delayed(400, ++seed));
  }
  EXPECT_EQ(switched->position(), 30U);
  EXPECT_EQ(switched->digest(), whole);
}

TEST_F(ExactnessTest, ConsecutiveRunsOfOnePlanGiveSerialDigest) {
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
  const auto parts = trainer({});
  for (int part = 0; part < 6; ++part) run_with(*parts, plan, steps(5), delayed(400, 9));
  EXPECT_EQ(parts->digest(), fresh_run({}, serial_plan(), steps(30)).digest);
}

TEST_F(ExactnessTest, RestoredStateContinuesToUninterruptedDigest) {
  for (const char* optimizer : {"momentum", "adamw"}) {
    SCOPED_TRACE(optimizer);
    const Tiny tiny{.optimizer = optimizer, .noisy = true};
    const std::uint64_t whole = fresh_run(tiny, serial_plan(), steps(20)).digest;
    const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
    const auto first = trainer(tiny);
    first->run(plan, steps(12));
    const State at_12 = first->state();
    const std::uint64_t digest_at_12 = first->digest();
    run_with(*first, plan, steps(8), delayed(400, 5));
    EXPECT_EQ(first->digest(), whole);

    first->restore(at_12);
    EXPECT_EQ(first->digest(), digest_at_12);
    EXPECT_EQ(first->position(), 12U);
    first->run(serial_plan(), steps(8));
    EXPECT_EQ(first->digest(), whole);

    const auto second = trainer({.optimizer = optimizer, .noisy = true});
    second->run(plan, steps(3));
    second->restore(at_12);
    second->run(plan, steps(8));
    EXPECT_EQ(second->digest(), whole);
  }
}

TEST_F(ExactnessTest, StateOfDifferentPipelineIsRefused) {
  const auto momentum = trainer({});
  const auto other = trainer({.optimizer = "adamw"});
  EXPECT_THAT(thrown_by([&] { other->restore(momentum->state()); }),
              HasSubstr("this state belongs to another pipeline: the training step has "));
  State wider = momentum->state();
  wider.model.front().name = "fc.weight";
  EXPECT_THAT(thrown_by([&] { momentum->restore(wider); }),
              HasSubstr("but the state has 'fc.weight' in its place"));
  wider = momentum->state();
  wider.model.front().tensor = wider.model.front().tensor.flatten();
  EXPECT_THAT(thrown_by([&] { momentum->restore(wider); }), HasSubstr("has another shape"));
}

TEST_F(ExactnessTest, DropoutAndBatchNormGiveSerialDigestInPipelinedPlan) {
  const Tiny tiny{.noisy = true};
  const RunResult serial = fresh_run(tiny, serial_plan(), steps(kExactSteps));
  EXPECT_NE(serial.digest, fresh_run({}, serial_plan(), steps(kExactSteps)).digest);
  for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
    const Plan plan = build_plan(kThreeLanes, driver, 4);
    EXPECT_EQ(fresh_run(tiny, plan, steps(kExactSteps), delayed(400, 11)).digest, serial.digest)
        << describe(plan);
  }
}

TEST_F(ExactnessTest, CallerRandomDrawsBetweenRunsDoNotChangeTheDigest) {
  const Tiny tiny{.noisy = true};
  const auto parts = trainer(tiny);
  for (int part = 0; part < 4; ++part) {
    static_cast<void>(at::rand({part + 1}, at::TensorOptions().device(context().device())));
    parts->run(build_plan(kThreeLanes, Driver::threaded, 3), steps(6));
  }
  EXPECT_EQ(parts->digest(), fresh_run(tiny, serial_plan(), steps(24)).digest);
}

TEST_F(ExactnessTest, TrainersSharingAContextDoNotAffectEachOther) {
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 4);
  const auto one = trainer({}), other = trainer({.seed = 5, .optimizer = "adamw"});
  for (int part = 0; part < 3; ++part) {
    one->run(plan, steps(4));
    other->run(plan, steps(4));
  }
  EXPECT_EQ(one->digest(), fresh_run({}, serial_plan(), steps(12)).digest);
  EXPECT_EQ(other->digest(),
            fresh_run({.seed = 5, .optimizer = "adamw"}, serial_plan(), steps(12)).digest);
}

TEST_F(ExactnessTest, SecondRunStartsNoThreads) {
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 4);
  fresh_run({}, plan, steps(3));
  const std::size_t threads = get_threads(context()).size();
  EXPECT_GE(threads, 3U);
  fresh_run({}, plan, steps(3));
  EXPECT_EQ(get_threads(context()).size(), threads);
}

/// PyTorch's process-wide and per-thread settings that a run changes.
struct TorchSettings {
  bool tf32 = at::globalContext().allowTF32CuDNN();
  bool benchmark = at::globalContext().benchmarkCuDNN();
  bool cudnn = at::globalContext().deterministicCuDNN();
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool fill = at::globalContext().deterministicFillUninitializedMemory();
  bool autocast = at::autocast::is_autocast_enabled(at::kCPU);
  bool autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  at::ScalarType type = at::autocast::get_autocast_dtype(at::kCPU);
  bool operator==(const TorchSettings&) const = default;
};

TEST_F(ExactnessTest, CallersTorchSettingsAreNeitherUsedNorChanged) {
  const std::uint64_t digest = fresh_run({}, serial_plan(), steps(6)).digest;
  auto& torch = at::globalContext();
  const TorchSettings first;
  const auto type_before = at::autocast::get_autocast_dtype(context().device().type());
  torch.setBenchmarkCuDNN(true);
  torch.setAllowTF32CuDNN(true);
  at::autocast::set_autocast_dtype(context().device().type(), at::kBFloat16);
  at::autocast::set_autocast_enabled(context().device().type(), true);
  const TorchSettings callers;
  EXPECT_EQ(fresh_run({}, serial_plan(), steps(6)).digest, digest);
  EXPECT_TRUE(TorchSettings() == callers);
  Tiny failing;
  failing.loss = [](const at::Tensor&, const Batch&) -> at::Tensor {
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    throw std::runtime_error("no luck");
  };
  EXPECT_NE(thrown_by([&] { fresh_run(failing, serial_plan(), steps(6)); }), "nothing");
  EXPECT_TRUE(TorchSettings() == callers);
  at::autocast::set_autocast_enabled(context().device().type(), first.autocast);
  at::autocast::set_autocast_dtype(context().device().type(), type_before);
  torch.setAllowTF32CuDNN(first.tf32);
  torch.setBenchmarkCuDNN(first.benchmark);
}

TEST_F(ExactnessTest, DigestDisabledInRunCanBeComputedLater) {
  const auto one = trainer({});
  RunOptions options = steps(5);
  options.digest = false;
  EXPECT_EQ(one->run(serial_plan(), options).digest, 0U);
  EXPECT_EQ(one->digest(), fresh_run({}, serial_plan(), steps(5)).digest);
}

}  // namespace
}  // namespace slipstream::test
