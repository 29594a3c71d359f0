#include "report/trace_report.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

namespace slipstream {
namespace {

using SortedJson = nlohmann::json;
using Kind = TraceRow::Kind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStart = 7'000 * kMs;  // the clock is not 0 at the start of a trace

std::string unzipped(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

/// A worker that fills slabs of one sample each, and three lanes of a plan of depth 3; times are in
/// ms.
class TraceReport : public testing::Test {
 protected:
  void add(Kind kind, const std::string& row, const std::vector<std::string>& names,
           const TraceEvent& event) {
    TraceEvent shifted = event;
    shifted.begin_ns = kStart + event.begin_ns * kMs;
    shifted.end_ns = kStart + event.end_ns * kMs;
    recorder_.row(kind, row, names).add(shifted);
  }
  void lane(const std::string& name, std::uint64_t batch, std::int64_t begin, std::int64_t end) {
    add(Kind::lane, name, {name}, {.batch = batch, .begin_ns = begin, .end_ns = end});
  }
  void sample(std::uint64_t batch, std::int64_t begin, std::int64_t decoded, std::int64_t end) {
    const std::vector<std::string> steps = {"decode", "collate"};
    add(Kind::worker, "worker 0", steps, {0, batch, 10 + batch, begin, decoded});
    add(Kind::worker, "worker 0", steps, {1, batch, 10 + batch, decoded, end});
    add(Kind::slab, "slab " + std::to_string(batch % 2), {"fill"},
        {0, batch, kNoSample, begin, end});
  }

  /// Adds a step of 4 ms every 10 ms; it waits for the loader in between.
  void add_starved_steps(std::uint64_t steps) {
    for (std::uint64_t n = 0; n < steps; ++n) {
      const auto at = static_cast<std::int64_t>(10 * n);
      sample(n, at, at + 8, at + 10);
      lane("copy", n, at + 10, at + 11);
      lane("encode", n, at + 12, at + 13);
      lane("train", n, at + 13, at + 17);
    }
  }

  SortedJson json(const TraceFacts& facts = {}) {
    return SortedJson::parse(trace_json(recorder_, facts));
  }

  static std::vector<SortedJson> find_events(const SortedJson& trace, const std::string& phase) {
    std::vector<SortedJson> found;
    for (const SortedJson& each : trace["traceEvents"])
      if (each["ph"] == phase) found.push_back(each);
    return found;
  }

  TraceRecorder recorder_{{}};
};

TEST_F(TraceReport, SlicesHaveNameTimeDurationAndArguments) {
  sample(3, 0, 2, 5);
  lane("train", 3, 6, 9);
  const auto slices = find_events(json(), "X");
  ASSERT_EQ(slices.size(), 4U);
  EXPECT_EQ(slices[0]["name"], "decode #3");
  EXPECT_EQ(slices[0]["cat"], "decode");
  EXPECT_EQ(slices[0]["ts"], 0);
  EXPECT_EQ(slices[0]["dur"], 2000);
  EXPECT_EQ(slices[0]["args"], (SortedJson{{"batch", 3}, {"sample", 13}}));
  EXPECT_EQ(slices[1]["name"], "collate #3");
  EXPECT_EQ(slices[2]["name"], "fill #3");
  EXPECT_EQ(slices[2]["args"], (SortedJson{{"batch", 3}}));
  EXPECT_EQ(slices[3]["name"], "train #3");
  EXPECT_EQ(slices[3]["ts"], 6000);
  EXPECT_EQ(slices[3]["dur"], 3000);
}

TEST_F(TraceReport, TimesAreMicrosecondsWithThreeDecimals) {
  TraceRow& row = recorder_.row(Kind::lane, "train", {"train"});
  row.add({.batch = 0, .begin_ns = kStart, .end_ns = kStart + 1});
  row.add({.batch = 1, .begin_ns = kStart + 12'034, .end_ns = kStart + 13'144});
  const std::string text = trace_json(recorder_, {});
  EXPECT_THAT(text, HasSubstr(R"("ts": 0.000, "dur": 0.001)"));
  EXPECT_THAT(text, HasSubstr(R"("ts": 12.034, "dur": 1.110)"));
}

TEST_F(TraceReport, RowsAreNamedAndGroupedWithDeviceLast) {
  add_starved_steps(1);
  const TraceEvent kernel{.begin_ns = kStart, .end_ns = kStart + 5};
  recorder_.add_row(Kind::stream, "stream 7", {"gemm"}, {&kernel, 1});
  add(Kind::host, "enqueue train", {"train"}, {.batch = 0, .begin_ns = 1, .end_ns = 2});
  const SortedJson trace = json();
  std::map<int, std::string> groups;
  std::map<std::pair<int, int>, std::string> rows;
  std::map<std::pair<int, int>, int> order;
  for (const SortedJson& each : find_events(trace, "M")) {
    const std::pair<int, int> place = {each["pid"], each["tid"]};
    if (each["name"] == "process_name") groups[place.first] = each["args"]["name"];
    if (each["name"] == "thread_name") {
      EXPECT_TRUE(rows.try_emplace(place, each["args"]["name"]).second);
    }
    if (each["name"] == "thread_sort_index") order[place] = each["args"]["sort_index"];
  }
  EXPECT_EQ(groups,
            (std::map<int, std::string>{{1, "loader"}, {2, "lanes"}, {3, "host"}, {4, "device"}}));
  std::vector<std::string> names;
  for (const auto& [place, name] : rows) {
    names.push_back(name);
    EXPECT_TRUE(order.contains(place));
  }
  EXPECT_THAT(names, ElementsAre("worker 0", "slab 0", "copy", "encode", "train", "enqueue train",
                                 "stream 7"));
  for (const SortedJson& slice : find_events(trace, "X"))
    EXPECT_TRUE(rows.contains({slice["pid"], slice["tid"]})) << slice;
  EXPECT_EQ(find_events(trace, "X").back()["name"], "gemm");
  EXPECT_FALSE(find_events(trace, "X").back().contains("args"));
}

TEST_F(TraceReport, ArrowsConnectSlabAndLanesOfEachBatch) {
  add_starved_steps(3);
  const SortedJson trace = json();
  const auto slice_at = [&](const SortedJson& end) {
    std::string found;
    for (const SortedJson& slice : find_events(trace, "X")) {
      const double ts = slice["ts"], at = end["ts"], dur = slice["dur"];
      if (slice["tid"] == end["tid"] && slice["pid"] == end["pid"] && ts <= at && at < ts + dur)
        found = slice["name"];
    }
    return found;
  };
  std::map<int, std::pair<std::string, std::string>> arrows;
  for (const SortedJson& end : find_events(trace, "s")) arrows[end["id"]].first = slice_at(end);
  for (const SortedJson& end : find_events(trace, "f")) {
    EXPECT_EQ(end["bp"], "e");
    arrows[end["id"]].second = slice_at(end);
  }
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [id, arrow] : arrows) all.push_back(arrow);
  std::vector<std::pair<std::string, std::string>> expected;
  for (const std::string batch : {" #0", " #1", " #2"}) {
    expected.emplace_back("fill" + batch, "copy" + batch);
    expected.emplace_back("copy" + batch, "encode" + batch);
    expected.emplace_back("encode" + batch, "train" + batch);
  }
  EXPECT_EQ(all, expected);
  EXPECT_EQ(find_events(trace, "s").size(), 9U);
  EXPECT_EQ(find_events(trace, "f").size(), 9U);
}

TEST_F(TraceReport, NamesAreEscaped) {
  const std::string odd =
      "a\"b\\c\nd\x01"
      "<T&>\xff";
  add(Kind::lane, odd, {odd}, {.batch = 1, .begin_ns = 0, .end_ns = 1});
  const SortedJson trace = json({{odd, odd}});
  const std::string known =
      "a\"b\\c\nd\x01"
      "<T&>\uFFFD";
  EXPECT_EQ(find_events(trace, "X")[0]["name"], known + " #1");
  EXPECT_EQ(trace["otherData"][known], known);
}

TEST_F(TraceReport, EmptyTraceIsValid) {
  const SortedJson trace = json({{"plan", "serial"}, {"steps", "0"}});
  EXPECT_THAT(trace["traceEvents"], IsEmpty());
  EXPECT_EQ(trace["otherData"], (SortedJson{{"plan", "serial"}, {"steps", "0"}}));
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  const TraceSummary summary = summarize_trace(recorder_);
  EXPECT_EQ(summary.ns, 0);
  EXPECT_FALSE(summary.path.has_value());
  EXPECT_THAT(trace_text(summary), HasSubstr("lane"));
}

TEST_F(TraceReport, GzippedTextDecompressesToOriginal) {
  add_starved_steps(20);
  const std::string text = trace_json(recorder_, {});
  const std::string zipped = gzipped(text);
  EXPECT_LT(zipped.size(), text.size() / 4);
  EXPECT_EQ(unzipped(zipped), text);
  EXPECT_EQ(unzipped(gzipped("")), "");
}

TEST_F(TraceReport, SummaryHasBusyWaitingAndOverlappedTimeOfEachLane) {
  lane("copy", 0, 0, 4);
  lane("copy", 1, 4, 8);
  lane("encode", 0, 6, 10);
  lane("train", 0, 9, 20);
  const TraceSummary summary = summarize_trace(recorder_);
  EXPECT_EQ(summary.ns, 20 * kMs);
  ASSERT_EQ(summary.lanes.size(), 3U);
  const auto expect = [&](std::size_t i, std::int64_t busy, std::int64_t overlapped) {
    EXPECT_EQ(summary.lanes[i].busy_ns, busy * kMs) << i;
    EXPECT_EQ(summary.lanes[i].waiting_ns, (20 - busy) * kMs) << i;
    EXPECT_EQ(summary.lanes[i].overlapped_ns, overlapped * kMs) << i;
  };
  expect(0, 8, 2);
  expect(1, 4, 3);
  expect(2, 11, 1);
}

TEST_F(TraceReport, WorkerAndStreamBusySharesCoverTracedLaneTime) {
  add(Kind::worker, "worker 0", {"read"}, {.batch = 0, .begin_ns = -8, .end_ns = 4});
  add(Kind::worker, "worker 1", {"read"}, {.batch = 0, .begin_ns = 2, .end_ns = 4});
  lane("train", 0, 0, 8);
  const auto at = [](std::int64_t begin, std::int64_t end) {
    return TraceEvent{.begin_ns = kStart + begin * kMs, .end_ns = kStart + end * kMs};
  };
  const std::vector<TraceEvent> one = {at(0, 2), at(3, 4)}, two = {at(1, 3), at(7, 20)};
  recorder_.add_row(Kind::stream, "stream 7", {"gemm"}, one);
  recorder_.add_row(Kind::stream, "stream 13", {"gemm"}, two);
  const TraceSummary summary = summarize_trace(recorder_);
  EXPECT_EQ(summary.workers, 2U);
  EXPECT_DOUBLE_EQ(summary.worker_busy_share, 6.0 / 16);
  EXPECT_EQ(summary.streams, 2U);
  EXPECT_DOUBLE_EQ(summary.stream_busy_share, 5.0 / 8);
  EXPECT_THAT(trace_text(summary), HasSubstr("2 workers, busy 38 %"));
}

std::map<std::string, std::int64_t> path_parts(const CriticalPath& path) {
  std::map<std::string, std::int64_t> parts;
  for (const PathPart& part : path.parts) parts[part.what] = part.ns / kMs;
  return parts;
}

TEST_F(TraceReport, CriticalPathOfStarvedStepGoesThroughLoader) {
  add_starved_steps(10);
  const auto path = summarize_trace(recorder_).path;
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->ns, 10 * kMs);
  const std::string n = " #" + std::to_string(path->batch);
  // The path begins when the preceding step ended, which is in the last millisecond of the sample's
  // decoding.
  EXPECT_EQ(path_parts(*path), (std::map<std::string, std::int64_t>{{"decode" + n, 1},
                                                                    {"collate" + n, 2},
                                                                    {"copy" + n, 1},
                                                                    {"waiting", 1},
                                                                    {"encode" + n, 1},
                                                                    {"train" + n, 4}}));
  EXPECT_EQ(path->parts.front().what, "decode" + n);
  EXPECT_EQ(path->parts.back().what, "train" + n);
  EXPECT_THAT(trace_text(summarize_trace(recorder_)),
              HasSubstr("critical path of step " + std::to_string(path->batch) + ", 10.0 ms"));
}

TEST_F(TraceReport, CriticalPathOfBusyTrainingLaneStaysOnLane) {
  for (std::uint64_t n = 0; n < 10; ++n) {
    const auto at = static_cast<std::int64_t>(10 * n);
    lane("copy", n, at, at + 1);
    lane("train", n, at + 10, at + 20);
  }
  const auto path = summarize_trace(recorder_).path;
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path_parts(*path),
            (std::map<std::string, std::int64_t>{{"train #" + std::to_string(path->batch), 10}}));
}

TEST_F(TraceReport, CriticalPathContinuesAtReaderThatWorkerWaitedFor) {
  TraceRecorder slow({});
  for (std::uint64_t n = 0; n < 10; ++n) {
    const std::int64_t at = kStart + static_cast<std::int64_t>(10 * n) * kMs;
    slow.row(Kind::reader, "reader 0", {"read"})
        .add({.batch = n, .sample = n, .begin_ns = at, .end_ns = at + 9 * kMs});
    slow.row(Kind::worker, "worker 0", {"read", "decode"})
        .add({.name = 1,
              .batch = n,
              .sample = n,
              .begin_ns = at + 9 * kMs,
              .end_ns = at + 10 * kMs});
    slow.row(Kind::lane, "train", {"train"})
        .add({.batch = n, .begin_ns = at + 10 * kMs, .end_ns = at + 12 * kMs});
  }
  const auto slow_path = summarize_trace(slow).path;
  ASSERT_TRUE(slow_path.has_value());
  const std::string n = " #" + std::to_string(slow_path->batch);
  EXPECT_EQ(path_parts(*slow_path), (std::map<std::string, std::int64_t>{
                                        {"read" + n, 7}, {"decode" + n, 1}, {"train" + n, 2}}));
}

TEST_F(TraceReport, FullRowEndsSummaryAndIsReported) {
  TraceRecorder small({.events_per_row = 4});
  TraceRow& train = small.row(Kind::lane, "train", {"train"});
  TraceRow& worker = small.row(Kind::worker, "worker 0", {"read"});
  for (std::uint64_t n = 0; n < 4; ++n) {
    const std::int64_t at = kStart + static_cast<std::int64_t>(10 * n) * kMs;
    train.add({.batch = n, .begin_ns = at, .end_ns = at + 10 * kMs});
    for (int half : {0, 5})
      worker.add({.batch = n, .begin_ns = at + half * kMs, .end_ns = at + (half + 5) * kMs});
  }
  const TraceSummary summary = summarize_trace(small);
  EXPECT_EQ(summary.ns, 20 * kMs);
  EXPECT_DOUBLE_EQ(summary.worker_busy_share, 1);
  EXPECT_EQ(summary.lanes[0].busy_ns, 20 * kMs);
  EXPECT_THAT(summary.full, ElementsAre("worker 0: 4 events not recorded"));
  EXPECT_EQ(summary.path.value().batch, 1U);
  EXPECT_THAT(trace_text(summary), HasSubstr("full: worker 0"));
}

TEST_F(TraceReport, OneDroppedEventUsesSingular) {
  TraceRecorder small({.events_per_row = 1});
  TraceRow& train = small.row(Kind::lane, "train", {"train"});
  for (std::int64_t n = 0; n < 2; ++n)
    train.add({.begin_ns = kStart + n * kMs, .end_ns = kStart + (n + 1) * kMs});
  EXPECT_THAT(summarize_trace(small).full, ElementsAre("train: 1 event not recorded"));
}

}  // namespace
}  // namespace slipstream
