#include "core/trace.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

namespace slipstream {
namespace {

using Kind = TraceRow::Kind;
using testing::ElementsAre;

TraceEvent event(std::uint64_t batch, std::int64_t begin_ns = 0) {
  return {.batch = batch, .begin_ns = begin_ns, .end_ns = begin_ns + 1};
}

std::vector<std::uint64_t> batches_in(const TraceRow& row) {
  std::vector<std::uint64_t> batches;
  for (const TraceEvent& each : row.events()) batches.push_back(each.batch);
  return batches;
}

TEST(Trace, ClockIsTheSteadyClock) {
  using std::chrono::steady_clock;
  const auto ns = [] {
    return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
  };
  const std::int64_t before = ns();
  const std::int64_t now = trace_now_ns();
  EXPECT_LE(before, now);
  EXPECT_LE(now, ns());
}

TEST(Trace, EventsKeepTheirOrderAndFields) {
  TraceRecorder recorder({});
  TraceRow& row = recorder.row(Kind::worker, "worker 0", {"read", "decode"});
  const TraceEvent added{.name = 1, .batch = 3, .sample = 17, .begin_ns = 5, .end_ns = 9};
  row.add(event(2));
  row.add(added);
  ASSERT_EQ(row.events().size(), 2U);
  const TraceEvent& kept = row.events()[1];
  EXPECT_EQ(kept.name, 1U);
  EXPECT_EQ(kept.batch, 3U);
  EXPECT_EQ(kept.sample, 17U);
  EXPECT_EQ(kept.begin_ns, 5);
  EXPECT_EQ(kept.end_ns, 9);
}

TEST(Trace, EventWithUnknownNameIndexThrows) {
  TraceRecorder recorder({});
  TraceRow& row = recorder.row(Kind::lane, "train", {"train"});
  EXPECT_THROW(row.add({.name = 1}), std::logic_error);
}

TEST(Trace, FullRowCountsDroppedEvents) {
  TraceRecorder recorder({.events_per_row = 3});
  TraceRow& row = recorder.row(Kind::lane, "train", {"train"});
  const TraceEvent* const memory = row.events().data();
  for (std::uint64_t batch = 0; batch < 8; ++batch)
    row.add(event(batch, static_cast<std::int64_t>(10 * batch)));
  EXPECT_THAT(batches_in(row), ElementsAre(0, 1, 2));
  EXPECT_EQ(row.events().data(), memory);
  EXPECT_EQ(row.dropped(), 5U);
  EXPECT_EQ(row.dropped_from_ns(), 30);
}

TEST(Trace, RowIsCreatedOncePerKindNameAndEventNames) {
  TraceRecorder recorder({});
  TraceRow& row = recorder.row(Kind::lane, "train", {"train"});
  EXPECT_EQ(&recorder.row(Kind::lane, "train", {"train"}), &row);
  EXPECT_NE(&recorder.row(Kind::host, "train", {"train"}), &row);
  EXPECT_NE(&recorder.row(Kind::lane, "encode", {"train"}), &row);
  EXPECT_NE(&recorder.row(Kind::lane, "train", {"copy", "train"}), &row);
  EXPECT_EQ(recorder.rows().size(), 4U);
}

TEST(Trace, RowsAreOrderedByKind) {
  TraceRecorder recorder({});
  const TraceEvent kernel = event(kNoBatch);
  recorder.add_row(Kind::stream, "stream 7", {"gemm"}, {&kernel, 1});
  recorder.row(Kind::lane, "copy", {"copy"});
  recorder.row(Kind::lane, "train", {"train"});
  recorder.row(Kind::worker, "worker 0", {"read"});
  std::vector<std::string> names;
  for (const TraceRow* row : recorder.rows()) names.push_back(row->name());
  EXPECT_THAT(names, ElementsAre("worker 0", "copy", "train", "stream 7"));
  EXPECT_EQ(recorder.rows().back()->events().size(), 1U);
}

TEST(Trace, WriterKeepsEventsFromFirstBatchUntilStop) {
  TraceRecorder recorder({.first_batch = 2});
  TraceRow& row = recorder.row(Kind::lane, "train", {"train"});
  TraceWriter writer(recorder, row);
  for (std::uint64_t batch = 0; batch < 4; ++batch) writer.add(event(batch));
  recorder.stop();
  writer.add(event(4));
  EXPECT_THAT(batches_in(row), ElementsAre(2, 3));
  TraceWriter none;
  EXPECT_FALSE(none.wants(2));
  none.add(event(2));
}

TEST(Trace, RowsCanBeReadWhileManyThreadsWrite) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEvents = 20'000;
  TraceRecorder recorder({.events_per_row = kEvents - 1000});
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&recorder, i] {
      TraceRow& row = recorder.row(Kind::worker, "worker " + std::to_string(i), {"read"});
      for (std::uint64_t k = 0; k < kEvents; ++k) row.add(event(k));
    });
  std::size_t seen = 0;
  while (seen < kThreads * (kEvents - 1000)) {
    seen = 0;
    for (const TraceRow* row : recorder.rows()) {
      const auto events = row->events();
      seen += events.size();
      if (!events.empty()) {
        EXPECT_EQ(events.back().batch, events.size() - 1);
      }
    }
  }
  threads.clear();
  for (const TraceRow* row : recorder.rows()) EXPECT_EQ(row->dropped(), 1000U);
}

}  // namespace
}  // namespace slipstream
