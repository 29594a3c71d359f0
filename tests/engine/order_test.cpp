#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "core/schedule.h"
#include "engine/context_parts.h"
#include "engine/delays.h"
#include "engine/engine.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kOrderSteps = 16;
constexpr double kDelayUs = 5000;
const std::vector<Lanes> kGroupings = {kThreeLanes, Lanes{{"copy", "encode"}, {"train"}},
                                       Lanes{{"copy"}, {"encode", "train"}}};

class OrderTest : public EngineTest {
 protected:
  struct Outcome {
    std::uint64_t digest;
    std::vector<std::string> violations;
  };

  /// Runs without the wait `skipped` and delays the `slow` lanes around each part of a batch.
  Outcome run_without(const Plan& plan, const WaitId& skipped,
                      const std::vector<std::size_t>& slow) {
    const auto& schedule = plan.schedule;
    OrderCheck check(schedule.lanes.size(), schedule.depth, schedule.depth + schedule.run_ahead);
    ScheduleProbe probe;
    probe.skip = [&](const WaitId& wait) { return wait == skipped; };
    probe.check = &check;
    probe.delay = [&](std::size_t lane, std::uint64_t, bool first) {
      if (!first || std::find(slow.begin(), slow.end(), lane) == slow.end()) return;
      const LanePlan& planned = schedule.lanes[lane];
      delay_lane(get_lane(context(), planned.steps.back(), planned.priority), kDelayUs);
    };
    RunHooks hooks;
    hooks.probe = &probe;
    const std::uint64_t digest = fresh_run({}, plan, steps(kOrderSteps), hooks).digest;
    return {digest, check.violations()};
  }

  static bool is_implied(const Plan& plan, const WaitId& wait) {
    const auto implied = implied_waits(plan.schedule.lanes.size(), plan.schedule.depth);
    return std::find(implied.begin(), implied.end(), wait) != implied.end();
  }
};

const WaitId kNone = {WaitId::Kind::handoff, 0};

TEST_F(OrderTest, CompletePlansHaveNoViolations) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(kOrderSteps)).digest;
  for (const Lanes& lanes : kGroupings)
    for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
      const Plan plan = build_plan(lanes, driver, lanes.size() + 1);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const Outcome outcome = run_without(plan, kNone, {lane});
        EXPECT_THAT(outcome.violations, IsEmpty()) << describe(plan);
        EXPECT_EQ(outcome.digest, serial) << describe(plan) << ", slow lane " << lane;
      }
    }
}

TEST_F(OrderTest, SkippedWaitIsAViolationUnlessImplied) {
  std::size_t found = 0, implied = 0;
  for (const Lanes& lanes : kGroupings)
    for (std::size_t depth : {lanes.size(), lanes.size() + 2}) {
      const Plan plan = build_plan(lanes, Driver::interleaved, depth);
      for (const WaitId& wait : all_waits(lanes.size())) {
        SCOPED_TRACE(describe(plan) + ", without the " + to_string(wait));
        const bool is_found = !run_without(plan, wait, {}).violations.empty();
        EXPECT_EQ(is_found, !is_implied(plan, wait));
        is_found ? ++found : ++implied;
      }
    }
  EXPECT_GT(found, 0U);
  RecordProperty("waits_found", static_cast<int>(found));
  RecordProperty("waits_implied", static_cast<int>(implied));
}

TEST_F(OrderTest, SkippingImpliedWaitKeepsTheDigest) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(kOrderSteps)).digest;
  for (const Lanes& lanes : kGroupings) {
    const Plan plan = build_plan(lanes, Driver::interleaved, lanes.size() + 1);
    for (const WaitId& wait : implied_waits(lanes.size(), plan.schedule.depth)) {
      SCOPED_TRACE(describe(plan) + ", without the " + to_string(wait));
      for (std::size_t slow = 0; slow < lanes.size(); ++slow)
        EXPECT_EQ(run_without(plan, wait, {slow}).digest, serial);
    }
  }
}

/// On CPU lanes the work of a lane has finished before the host continues; the host's own waits
/// then suffice for the right values.
TEST_F(OrderTest, SkippedHandoffChangesTheDigestOnlyOnGpu) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(kOrderSteps)).digest;
  for (const Lanes& lanes : kGroupings)
    for (std::size_t lane = 1; lane < lanes.size(); ++lane) {
      const Plan plan = build_plan(lanes, Driver::interleaved, lanes.size());
      const WaitId handoff = {WaitId::Kind::handoff, lane};
      SCOPED_TRACE(describe(plan) + ", without the " + to_string(handoff));
      const Outcome outcome = run_without(plan, handoff, {lane - 1});
      EXPECT_EQ(outcome.digest != serial, on_gpu());
    }
}

TEST_F(OrderTest, SkippedSlotWaitChangesTheDigestOnlyOnGpu) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(kOrderSteps)).digest;
  for (const Lanes& lanes : kGroupings) {
    const Plan plan = build_plan(lanes, Driver::interleaved, lanes.size());
    const WaitId slot = {WaitId::Kind::slot, 0};
    SCOPED_TRACE(describe(plan) + ", without the " + to_string(slot));
    const Outcome outcome = run_without(plan, slot, {lanes.size() - 1});
    EXPECT_EQ(outcome.digest != serial, on_gpu());
  }
}

/// A stage that keeps tensors of some batches after its call, with copies of their values.
class HeldTensorTest : public EngineTest {
 protected:
  struct KeptTensor {
    at::Tensor tensor, copy;
  };

  void keep(const Batch& batch) {
    const std::lock_guard lock(mutex_);
    if (!keeping_ || batch.number() % 3 == 2) return;
    for (const char* name : {"image", "label", "features"})
      held_.push_back({batch.at(name), batch.at(name).clone()});
    held_.push_back({batch.at("image").narrow(0, 1, 2), batch.at("image").narrow(0, 1, 2).clone()});
  }

  /// Releases all but the last `left` tensors, as a metric that is read later would.
  void release(std::size_t left) {
    const std::lock_guard lock(mutex_);
    if (held_.size() > left) held_.erase(held_.begin(), held_.end() - static_cast<long>(left));
  }

  void expect_unchanged() {
    for (std::size_t i = 0; i < held_.size(); ++i)
      EXPECT_TRUE(same_bits(held_[i].tensor, held_[i].copy)) << "held tensor " << i;
  }

  Tiny tiny() {
    Tiny tiny;
    tiny.extra = {{"keep", [this](Batch& batch) { keep(batch); }}};
    return tiny;
  }

  std::mutex mutex_;
  bool keeping_ = true;
  std::vector<KeptTensor> held_;
};

TEST_F(HeldTensorTest, HeldTensorsAreNeitherOverwrittenNorFreed) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(kOrderSteps)).digest;
  for (const Plan& plan :
       {serial_plan({"keep"}),
        build_plan({{"copy"}, {"encode"}, {"keep"}, {"train"}}, Driver::interleaved, 5),
        build_plan({{"copy"}, {"encode"}, {"keep"}, {"train"}}, Driver::threaded, 4),
        build_plan({{"copy", "encode", "keep"}, {"train"}}, Driver::threaded, 2)}) {
    SCOPED_TRACE(describe(plan));
    held_.clear();
    const auto one = trainer(tiny());
    one->run(plan, steps(kOrderSteps));
    expect_unchanged();
    EXPECT_GE(held_.size(), 40U);
    EXPECT_EQ(one->digest(), serial);
    one->run(plan, steps(kOrderSteps));
    expect_unchanged();
  }
  held_.clear();
}

TEST_F(HeldTensorTest, TemporarilyHeldTensorsDoNotGrowReservedMemory) {
  Tiny tiny = this->tiny();
  tiny.extra.emplace_back("forget", [this](Batch&) { release(8); });
  const Plan plan =
      build_plan({{"copy"}, {"encode"}, {"keep", "forget"}, {"train"}}, Driver::interleaved, 5);
  const auto one = trainer(tiny);
  one->run(plan, steps(100));
  const std::size_t after_100 = one->run(plan, steps(1)).memory.reserved_bytes;
  EXPECT_EQ(one->run(plan, steps(200)).memory.reserved_bytes, after_100);
  held_.clear();
  keeping_ = false;
  EXPECT_LE(one->run(plan, steps(50)).memory.reserved_bytes, after_100);
}

TEST_F(HeldTensorTest, ViewAddedByStageDoesNotHoldTheSlot) {
  Tiny tiny;
  std::set<const void*> slabs;
  tiny.extra = {{"crop",
                 [&](Batch& batch) {
                   slabs.insert(batch.at("image").const_data_ptr());
                   batch.set("crop", batch.at("image").narrow(2, 1, 4));
                   batch.set("pixels", batch.at("image"));
                 }},
                {"again", [](Batch& batch) { batch.set("same", batch.at("features")); }}};
  const Plan plan =
      build_plan({{"copy"}, {"encode"}, {"crop"}, {"again"}, {"train"}}, Driver::interleaved, 6);
  const auto one = trainer(tiny);
  one->run(plan, steps(1));
  slabs.clear();
  const RunResult result = one->run(plan, steps(200));
  EXPECT_EQ(slabs.size(), 6U);
  EXPECT_EQ(result.digest, fresh_run({}, serial_plan(), steps(201)).digest);
  EXPECT_EQ(result.memory.reserved_bytes, result.memory.reserved_after_warm_up_bytes);
}

}  // namespace
}  // namespace slipstream::test
