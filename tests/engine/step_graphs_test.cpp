#include "engine/step_graphs.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "engine/recorded_work.h"

namespace slipstream::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kSlots = 2;

/// A stage that adds 1 to the field "x". Field "x" of slot s is always in slabs[s].
class StepGraphsTest : public ::testing::Test {
 protected:
  StepGraphsTest() {
    for (std::size_t i = 0; i < kSlots; ++i) slabs.push_back(at::zeros({3}));
    call.slot_mutex = &mutex;
    call.is_static = [this](const at::Tensor& tensor) {
      for (const at::Tensor& slab : slabs)
        if (tensor.storage().is_alias_of(slab.storage())) return true;
      return false;
    };
    call.work = [this](Batch& fields) {
      ++runs;
      fields.set("y", fields.at("x") + 1);
      return StepResult{{{"y", fields.at("y")}}, {0}, {}};
    };
  }

  Batch batch(std::uint64_t number) {
    Batch made(number);
    at::Tensor& slab = slabs[number % kSlots];
    slab.fill_(static_cast<double>(number));
    made.set("x", slab);
    return made;
  }

  /// Runs batches from `first` and returns the first element of each result.
  std::vector<float> run(std::uint64_t first, std::uint64_t count) {
    std::vector<float> values;
    for (std::uint64_t n = first; n < first + count; ++n)
      values.push_back(graphs.run(batch(n), n % kSlots, call).made.front().second[0].item<float>());
    return values;
  }

  std::shared_ptr<Recordings> recordings = std::make_shared<Recordings>();
  StepGraphs graphs{"encode", std::make_unique<FakeRecorder>(recordings), kSlots};
  std::vector<at::Tensor> slabs;
  std::mutex mutex;
  StepCall call;
  int runs = 0;
};

TEST_F(StepGraphsTest, FirstBatchesRunWithoutGraphAndLaterOnesReplayOneGraphForEachSlot) {
  EXPECT_THAT(run(0, 3), ElementsAre(1, 2, 3));
  EXPECT_EQ(recordings->records, 0U);
  EXPECT_THAT(run(3, 5), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_EQ(recordings->records, kSlots);
  EXPECT_EQ(recordings->replays, 5U);
  const GraphCounts counts = graphs.take_counts();
  EXPECT_EQ(counts.graphs, kSlots);
  EXPECT_EQ(counts.replays, 5U);
  EXPECT_EQ(counts.renewed, 0U);
  EXPECT_THAT(counts.warnings, IsEmpty());
}

TEST_F(StepGraphsTest, ResultsOfASlotStayUntilTheSlotIsUsedAgain) {
  run(0, 5);
  const at::Tensor kept = graphs.run(batch(5), 1, call).made.front().second;
  graphs.run(batch(6), 0, call);
  EXPECT_EQ(kept[0].item<float>(), 6);
}

TEST_F(StepGraphsTest, AnotherVariantOrShapeNeedsOtherGraphs) {
  run(0, 5);
  call.variant = "update";
  run(5, 3);
  EXPECT_EQ(recordings->records, kSlots);
  run(8, 2);
  EXPECT_EQ(recordings->records, 2 * kSlots);
  slabs = {at::zeros({2}), at::zeros({2})};
  EXPECT_THAT(run(10, 3), ElementsAre(11, 12, 13));
  EXPECT_EQ(recordings->records, 2 * kSlots);
}

TEST_F(StepGraphsTest, BatchInOtherMemoryIsRecordedAgain) {
  run(0, 5);
  slabs[1] = at::zeros({3});
  EXPECT_THAT(run(5, 2), ElementsAre(6, 7));
  EXPECT_EQ(recordings->records, kSlots + 1);
  EXPECT_EQ(graphs.take_counts().renewed, 1U);
}

TEST_F(StepGraphsTest, MemoryThatChangesAgainAndAgainEndsTheUseOfGraphs) {
  for (std::uint64_t n = 0; n < 40; ++n) {
    slabs[n % kSlots] = at::zeros({3});
    EXPECT_THAT(run(n, 1), ElementsAre(static_cast<float>(n + 1)));
  }
  EXPECT_TRUE(graphs.is_disabled());
  EXPECT_LE(recordings->records, kSlots * (StepGraphs::kMostRenewals + 1));
  EXPECT_THAT(graphs.take_counts().warnings, ElementsAre(HasSubstr("keep a clone()")));
}

TEST_F(StepGraphsTest, FieldsWithoutAFixedAddressAreCopiedToMemoryOfTheGraph) {
  call.is_static = [](const at::Tensor&) { return false; };
  run(0, 5);
  slabs = {at::zeros({3}), at::zeros({3})};
  EXPECT_THAT(run(5, 3), ElementsAre(6, 7, 8));
  EXPECT_EQ(recordings->records, kSlots);
}

TEST_F(StepGraphsTest, FailedRecordingIsUndoneAndReportedOnce) {
  recordings->failure = "operation not permitted when stream is capturing\nstack trace";
  int undone = 0;
  call.undo = [&] { ++undone; };
  EXPECT_THAT(run(0, 6), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(recordings->records, 1U);
  EXPECT_EQ(undone, 1);
  EXPECT_THAT(graphs.take_counts().warnings,
              ElementsAre("'encode' runs without CUDA graphs: operation not permitted when stream "
                          "is capturing"));
}

TEST_F(StepGraphsTest, GraphWhoseResultsAreKeptIsReleasedAndRecordedAgain) {
  run(0, 5);
  const at::Tensor kept = graphs.run(batch(5), 1, call).made.front().second;
  const auto own = [this] { return graphs.fields(1); };
  graphs.release_held(1, at::kCPU, {}, own, {});
  run(6, 2);
  EXPECT_EQ(kept[0].item<float>(), 6);
  EXPECT_EQ(recordings->records, kSlots + 1);
}

TEST_F(StepGraphsTest, GraphThatPassesAFieldOnIsNotReleasedWhileAnotherStepUsesItsMemory) {
  call.work = [](Batch& fields) {
    return StepResult{{{"y", fields.at("x").narrow(0, 0, 2)}}, {0}, {}};
  };
  run(0, 6);
  // `slabs` references the memory, as another lane that already runs the next batch does.
  graphs.release_held(1, at::kCPU, {}, [this] { return graphs.fields(1); }, {});
  EXPECT_THAT(run(6, 2), ElementsAre(6, 7));
  EXPECT_EQ(recordings->records, kSlots);
  EXPECT_EQ(graphs.take_counts().renewed, 0U);
}

TEST_F(StepGraphsTest, GraphWhoseResultsAreNotKeptIsNotReleased) {
  run(0, 6);
  graphs.release_held(1, at::kCPU, {}, [this] { return graphs.fields(1); }, {});
  run(6, 2);
  EXPECT_EQ(recordings->records, kSlots);
}

TEST_F(StepGraphsTest, GraphThatComputesSomethingElseIsNotUsed) {
  run(0, 4);  // records and replays batch 3
  recordings->error = 1;
  int restored = 0;
  call.save = [&] { return [&] { ++restored; }; };
  EXPECT_THAT(run(4, 3), ElementsAre(6, 6, 7))
      << "the replay of the batch that was recorded is not "
         "compared, the next one is";
  EXPECT_EQ(restored, 1);
  EXPECT_THAT(graphs.take_counts().warnings,
              ElementsAre(HasSubstr("computes something else than the step itself")));
}

TEST_F(StepGraphsTest, ComparisonAllowsRoundingIfTheStepIsNotDeterministic) {
  call.is_deterministic = false;
  run(0, 4);
  recordings->error = 0.01;
  run(4, 3);
  EXPECT_FALSE(graphs.is_disabled());
  recordings->error = 1;
  call.variant = "other";
  run(7, 6);
  EXPECT_TRUE(graphs.is_disabled());
}

TEST_F(StepGraphsTest, ComparedStepChangesItsStateOnce) {
  at::Tensor sum = at::zeros({});
  call.state = [&] { return std::vector<at::Tensor>{sum}; };
  call.work = [&](Batch& fields) {
    sum.add_(fields.at("x")[0]);
    return StepResult{{{"y", sum.clone()}}, {0}, {}};
  };
  recordings->save = [&] { return [&, before = sum.clone()] { sum.copy_(before); }; };
  const std::vector<std::uint64_t> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  for (const std::uint64_t n : numbers) {
    Batch one = batch(n);
    graphs.run(one, n % kSlots, call);
    EXPECT_EQ(sum.item<float>(), static_cast<float>(n * (n + 1) / 2));
  }
  EXPECT_FALSE(graphs.is_disabled());
}

TEST_F(StepGraphsTest, NumberOfKindsWithGraphsIsLimited) {
  for (std::size_t i = 0; i < StepGraphs::kMostKinds + 3; ++i) {
    call.variant = std::to_string(i);
    run(0, 4);
  }
  EXPECT_EQ(recordings->records, StepGraphs::kMostKinds);
}

}  // namespace
}  // namespace slipstream::test
