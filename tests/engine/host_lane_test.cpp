#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <chrono>
#include <optional>
#include <thread>

#include "core/patience.h"
#include "core/trace.h"
#include "engine/engine.h"
#include "support/no_threads.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kHostLaneSteps = 16;

class HostLaneTest : public EngineTest {};

/// Runs steps in which train(n) returns only after encode2(n+1) has begun.
class OverlapTest : public EngineTest {
 protected:
  std::string run_and_catch(const Plan& plan, std::chrono::milliseconds patience) {
    Counter encoded;
    Tiny tiny;
    tiny.extra = {{"encode2", [&](Batch&) { encoded.add(); }}};
    tiny.loss = [&](const at::Tensor& output, const Batch& batch) {
      encoded.await(std::min(batch.number() + 2, kHostLaneSteps), "the next batch's encode2",
                    patience);
      return output.square().mean();
    };
    return thrown_by([&] { fresh_run(tiny, plan, steps(kHostLaneSteps)); });
  }
};

TEST_F(OverlapTest, NextBatchIsEncodedWhileCurrentOneTrains) {
  const Lanes lanes = {{"copy"}, {"encode"}, {"encode2"}, {"train"}};
  EXPECT_EQ(run_and_catch(build_plan(lanes, Driver::threaded, 4), kPatience), "nothing");
  EXPECT_EQ(
      run_and_catch(build_plan({{"copy", "encode", "encode2"}, {"train"}}, Driver::threaded, 2),
                    kPatience),
      "nothing");
}

TEST_F(OverlapTest, SerialPlanDoesNotOverlapAndTimesOut) {
  const std::chrono::milliseconds patience(50);
  EXPECT_THAT(run_and_catch(serial_plan({"encode2"}), patience),
              HasSubstr("stage 'train' at step 0: waited in vain: the next batch's encode2"));
}

TEST_F(HostLaneTest, TraceRecordsTimeOfEachStepOfALane) {
  constexpr std::chrono::milliseconds kLong(2);
  Tiny tiny;
  tiny.extra = {{"sleep", [&](Batch&) { std::this_thread::sleep_for(kLong); }},
                {"wake", [](Batch&) {}}};
  RunHooks hooks;
  hooks.trace = std::make_shared<TraceRecorder>(TraceRecorder::Options{});
  std::int64_t slept_ns = 0;
  const Plan plan = serial_plan({"sleep", "wake"});
  fresh_run(tiny, plan, steps(kHostLaneSteps), hooks);
  for (const TraceRow* row : hooks.trace->rows()) {
    if (row->kind() != TraceRow::Kind::lane) continue;
    EXPECT_EQ(row->names(), plan.schedule.lanes.front().steps);
    for (const TraceEvent& event : row->events())
      if (row->names()[event.name] == "sleep") {
        EXPECT_GE(std::chrono::nanoseconds(event.end_ns - event.begin_ns), kLong);
        slept_ns += event.end_ns - event.begin_ns;
      }
  }
  EXPECT_GE(std::chrono::nanoseconds(slept_ns), kLong * kHostLaneSteps);
}

TEST_F(HostLaneTest, IntraOpThreadsAreSetPerStageAndRestored) {
  Plan::Numerics numerics = exact();
  numerics.intra_op_threads = {{"*", 1}, {"train", 3}};
  std::vector<int> seen;
  Tiny tiny;
  tiny.extra = {{"look", [&](Batch&) { seen.push_back(at::get_num_threads()); }}};
  tiny.loss = [&](const at::Tensor& output, const Batch&) {
    EXPECT_EQ(at::get_num_threads(), 3);
    return output.square().mean();
  };
  const int before = at::get_num_threads();
  Plan serial = serial_plan({"look"});
  serial.numerics = numerics;
  const std::uint64_t digest = fresh_run(tiny, serial, steps(6)).digest;
  const Plan plan =
      build_plan({{"copy"}, {"encode", "look"}, {"train"}}, Driver::threaded, 3, numerics);
  EXPECT_EQ(fresh_run(tiny, plan, steps(6)).digest, digest);
  EXPECT_EQ(seen, std::vector<int>(12, 1));
  EXPECT_EQ(at::get_num_threads(), before);
}

TEST_F(HostLaneTest, IntraOpThreadsThatCannotStartAreAnError) {
  Plan plan = serial_plan({"look"});
  plan.numerics.intra_op_threads = {{"*", 1}, {"train", 7}};
  std::optional<NoThreads> none;
  Tiny tiny;
  tiny.extra = {{"look", [&](Batch&) { none.emplace(); }}};
  const std::string why = thrown_by([&] { fresh_run(tiny, plan, steps(2)); });
  none.reset();
  EXPECT_THAT(why, testing::AllOf(HasSubstr("stage 'train' at step 0: cannot start a thread"),
                                  HasSubstr("OMP_NUM_THREADS"), HasSubstr("ulimit -v")));
  tiny.extra = {{"look", [](Batch&) {}}};
  EXPECT_EQ(thrown_by([&] { fresh_run(tiny, plan, steps(2)); }), "nothing");
}

}  // namespace
}  // namespace slipstream::test
