#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <tuple>

#include "core/trace.h"
#include "loader/loader_fixture.h"

namespace slipstream {
namespace {

using Kind = TraceRow::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kTraceBatch = 4;
constexpr std::uint64_t kFirst = 5;
constexpr std::uint64_t kTraceBatches = 20;

class LoaderTrace : public testing::Test {
 protected:
  /// Loads kTraceBatches batches from number kFirst, destroys the loader, and returns the rows of a
  /// kind.
  std::vector<const TraceRow*> traced(Kind kind, DataLoaderOptions options) {
    options.batch_size = kTraceBatch;
    options.first_batch = kFirst;
    options.trace = recorder_;
    begin_ns_ = trace_now_ns();
    {
      DataLoader loader(std::make_shared<TestSet>(64), two_transforms(), options);
      for (std::uint64_t i = 0; i < kTraceBatches; ++i) {
        const HostBatch batch = loader.next();
        taken_ns_[batch.number] = trace_now_ns();
        loader.release(batch, nullptr);
      }
    }
    end_ns_ = trace_now_ns();
    std::vector<const TraceRow*> rows = recorder_->rows();
    std::erase_if(rows, [kind](const TraceRow* row) { return row->kind() != kind; });
    return rows;
  }

  /// Checks that events do not overlap, and that they are within the time of the run.
  void expect_in_order(const TraceRow& row) const {
    std::int64_t at_ns = begin_ns_;
    for (const TraceEvent& event : row.events()) {
      EXPECT_GE(event.begin_ns, at_ns) << row.name();
      EXPECT_GE(event.end_ns, event.begin_ns) << row.name();
      at_ns = event.end_ns;
    }
    EXPECT_LE(at_ns, end_ns_) << row.name();
  }

  std::shared_ptr<TraceRecorder> recorder_ =
      std::make_shared<TraceRecorder>(TraceRecorder::Options{});
  std::map<std::uint64_t, std::int64_t> taken_ns_;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
};

TEST_F(LoaderTrace, RecordsEveryStepOfEverySampleOnce) {
  using Done = std::tuple<std::uint64_t, std::uint64_t, std::size_t>;
  const auto rows = traced(Kind::worker, {{}, {.num_workers = 3}});
  ASSERT_EQ(rows.size(), 3U);
  std::set<Done> done;
  std::map<std::uint64_t, std::size_t> events_of_batch;
  for (const TraceRow* row : rows) {
    EXPECT_THAT(row->names(), ElementsAre("read", "decode", "one", "two", "collate"));
    expect_in_order(*row);
    std::size_t step = 0;  // a worker finishes a sample before it takes the next
    for (const TraceEvent& event : row->events()) {
      EXPECT_EQ(event.name, step++ % row->names().size());
      EXPECT_LT(event.sample, 64U);
      EXPECT_TRUE(done.insert({event.batch, event.sample, event.name}).second);
      ++events_of_batch[event.batch];
      const auto taken = taken_ns_.find(event.batch);
      if (taken != taken_ns_.end()) {
        EXPECT_LE(event.end_ns, taken->second);
      }
    }
  }
  for (std::uint64_t batch = kFirst; batch < kFirst + kTraceBatches; ++batch)
    EXPECT_EQ(events_of_batch[batch], 5 * kTraceBatch) << batch;
  EXPECT_EQ(events_of_batch.begin()->first, kFirst);
}

TEST_F(LoaderTrace, SlabEventsSpanFirstToLastSample) {
  const auto slabs = traced(Kind::slab, with(&DataLoaderOptions::held_batches, 1,
                                             {{}, {.num_workers = 3, .prefetch_batches = 2}}));
  ASSERT_EQ(slabs.size(), 3U);
  std::map<std::uint64_t, const TraceEvent*> fills;
  for (const TraceRow* slab : slabs) {
    expect_in_order(*slab);
    for (const TraceEvent& event : slab->events())
      EXPECT_TRUE(fills.try_emplace(event.batch, &event).second);
  }
  for (const auto& [batch, taken_ns] : taken_ns_) {
    ASSERT_TRUE(fills.contains(batch)) << batch;
    EXPECT_LE(fills[batch]->end_ns, taken_ns);
  }
  for (const TraceRow* row : recorder_->rows()) {
    if (row->kind() != Kind::worker) continue;
    for (const TraceEvent& event : row->events()) {
      // the loader was destroyed before this slab was full
      if (!fills.contains(event.batch)) continue;
      EXPECT_GE(event.begin_ns, fills[event.batch]->begin_ns);
      EXPECT_LE(event.end_ns, fills[event.batch]->end_ns);
    }
  }
}

TEST_F(LoaderTrace, StepEventsCoverTheDurationOfTheStep) {
  constexpr std::chrono::milliseconds kLong(2);
  const auto dataset = std::make_shared<TestSet>(64);
  dataset->on_decode = [&](std::size_t) { std::this_thread::sleep_for(kLong); };
  {
    DataLoader loader(
        dataset, two_transforms(),
        with(&DataLoaderOptions::trace, recorder_, {{.batch_size = kTraceBatch}, {}}));
    take(loader, 3);
  }
  const TraceRow& worker = *recorder_->rows().front();
  ASSERT_GE(worker.events().size(), 3 * kTraceBatch * 5);
  for (const TraceEvent& event : worker.events())
    if (worker.names()[event.name] == "decode") {
      EXPECT_GE(std::chrono::nanoseconds(event.end_ns - event.begin_ns), kLong);
    }
}

TEST_F(LoaderTrace, ReadersHaveSeparateRows) {
  const auto readers = traced(Kind::reader, {{}, {.num_workers = 2, .read_ahead = {.reads = 3}}});
  ASSERT_EQ(readers.size(), 3U);
  std::set<std::pair<std::uint64_t, std::uint64_t>> read;
  for (const TraceRow* row : readers) {
    expect_in_order(*row);
    for (const TraceEvent& event : row->events()) {
      EXPECT_EQ(event.name, 0U);
      EXPECT_TRUE(read.emplace(event.batch, event.sample).second);
    }
  }
  for (const TraceRow* row : recorder_->rows())
    if (row->kind() == Kind::worker)
      for (const TraceEvent& event : row->events()) {
        EXPECT_NE(event.name, 0U);
        EXPECT_TRUE(read.contains({event.batch, event.sample}));
      }
}

TEST_F(LoaderTrace, BatchesBeforeFirstBatchAreNotRecorded) {
  recorder_ = std::make_shared<TraceRecorder>(TraceRecorder::Options{.first_batch = kFirst + 10});
  std::uint64_t first = kNoBatch;
  traced(Kind::worker, {{}, {.num_workers = 2}});
  for (const TraceRow* row : recorder_->rows())
    for (const TraceEvent& event : row->events()) first = std::min(first, event.batch);
  EXPECT_EQ(first, kFirst + 10);
}

TEST_F(LoaderTrace, BatchesAreTheSameWithAndWithoutTrace) {
  const auto slabs = [](std::shared_ptr<TraceRecorder> trace) {
    DataLoader loader(std::make_shared<TestSet>(64), two_transforms(),
                      with(&DataLoaderOptions::trace, std::move(trace),
                           {{.batch_size = kTraceBatch}, {.num_workers = 2}}));
    return take(loader, 20);
  };
  EXPECT_EQ(slabs(recorder_), slabs(nullptr));
}

TEST_F(LoaderTrace, FullRowReportsDroppedEvents) {
  recorder_ = std::make_shared<TraceRecorder>(TraceRecorder::Options{.events_per_row = 7});
  const auto rows = traced(Kind::worker, {{}, {.num_workers = 1}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]->events().size(), 7U);
  EXPECT_GE(rows[0]->dropped(), 5 * kTraceBatch * kTraceBatches - 7);
  EXPECT_GE(rows[0]->dropped_from_ns(), rows[0]->events().back().end_ns);
}

TEST_F(LoaderTrace, CachedSlabsHaveNoRows) {
  EXPECT_THAT(traced(Kind::worker, with(&DataLoaderOptions::cut, HostCut{"collate", 3},
                                        {{}, {.num_workers = 2}})),
              IsEmpty());
  EXPECT_THAT(recorder_->rows(), IsEmpty());
}

}  // namespace
}  // namespace slipstream
