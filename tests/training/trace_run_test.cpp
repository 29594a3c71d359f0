#include "training/trace_run.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "slipstream/cli/workload.h"
#include "slipstream/engine/pipeline.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using Kind = TraceRow::Kind;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class TraceRunTest : public testing::Test {
 protected:
  TraceRunTest() : trainer_(pipeline(), context_, numerics()) {}

  static Plan::Numerics numerics() {
    return make_plan("serial", {"copy", "train"}, DeviceKind::cpu, {{.num_workers = 1}}, {})
        .numerics;
  }
  static Pipeline pipeline() {
    Options options = find_options(built_in_workloads(), "segmentation");
    options.give("image-size", 8);
    options.give("classes", 5);
    options.batch_size = 2;
    return make_pipeline(built_in_workloads(), "segmentation", options);
  }

  Trace trace(const std::string& plan = "pipelined") {
    return run_trace(trainer_,
                     placed_plan(trainer_.pipeline(), plan, "cpu", DeviceKind::cpu,
                                 {{.num_workers = 2}}, trainer_.numerics()),
                     options_);
  }

  static std::vector<std::string> row_names(const Trace& trace, Kind kind) {
    std::vector<std::string> names;
    for (const TraceRow* row : trace.recorder->rows())
      if (row->kind() == kind) names.push_back(row->name());
    return names;
  }

  static std::set<std::uint64_t> traced_batches(const Trace& trace, Kind kind) {
    std::set<std::uint64_t> batches;
    for (const TraceRow* row : trace.recorder->rows())
      if (row->kind() == kind)
        for (const TraceEvent& event : row->events()) batches.insert(event.batch);
    return batches;
  }

  Context context_{"cpu"};
  Trainer trainer_;
  TraceOptions options_{.steps = 6};
};

TEST_F(TraceRunTest, TracesTheStepsAfterTheWarmUp) {
  const Trace traced = trace();
  EXPECT_EQ(traced.run.steps, 6U);
  EXPECT_EQ(traced.run.first_step, 5U);
  EXPECT_EQ(trainer_.position(), 11U);
  EXPECT_THAT(row_names(traced, Kind::lane), ElementsAre("copy", "encoder", "decoder"));
  EXPECT_THAT(row_names(traced, Kind::worker), ElementsAre("worker 0", "worker 1"));
  EXPECT_THAT(traced_batches(traced, Kind::lane), ElementsAre(5, 6, 7, 8, 9, 10));
  // The batches were prefetched before the first traced step, and each is traced once.
  for (const Kind kind : {Kind::worker, Kind::slab}) {
    EXPECT_EQ(*traced_batches(traced, kind).begin(), 5U);
    for (std::uint64_t batch = 5; batch < 11; ++batch)
      EXPECT_TRUE(traced_batches(traced, kind).contains(batch)) << batch;
  }
  EXPECT_THAT(traced.no_kernels, IsEmpty());
  EXPECT_THAT(traced.facts, Contains(Pair("plan", "pipelined")));
  EXPECT_THAT(traced.facts, Contains(Pair("input", "loader")));
  EXPECT_THAT(traced.facts, Contains(Pair("first step", "5")));
}

TEST_F(TraceRunTest, CachedInputTracesOnlyRemainingLanes) {
  options_.input = "host";
  EXPECT_THAT(row_names(trace(), Kind::lane), ElementsAre("copy", "encoder", "decoder"));
  options_.input = "device";
  const Trace device = trace();
  EXPECT_THAT(row_names(device, Kind::lane), ElementsAre("encoder", "decoder"));
  EXPECT_THAT(row_names(device, Kind::worker), IsEmpty());
  EXPECT_THAT(row_names(device, Kind::slab), IsEmpty());
  EXPECT_THAT(traced_batches(device, Kind::lane), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(trainer_.position(), 0U);
}

TEST_F(TraceRunTest, TracedRunGivesSerialTrainingDigest) {
  trace();
  const std::uint64_t digest = trainer_.digest();
  Trainer other(pipeline(), context_, numerics());
  RunOptions run;
  run.steps = 11;
  const Plan serial = placed_plan(other.pipeline(), "serial", "cpu", DeviceKind::cpu,
                                  {{.num_workers = 1}}, other.numerics());
  EXPECT_EQ(other.run(serial, run).digest, digest);
}

TEST_F(TraceRunTest, SummaryTimesOfLanesAndPathAddUp) {
  options_.steps = 12;
  const TraceSummary summary = summarize_trace(*trace("serial").recorder);
  ASSERT_EQ(summary.lanes.size(), 1U);
  EXPECT_EQ(summary.lanes[0].overlapped_ns, 0);
  EXPECT_GT(summary.lanes[0].busy_ns, 0);
  EXPECT_EQ(summary.lanes[0].busy_ns + summary.lanes[0].waiting_ns, summary.ns);
  ASSERT_TRUE(summary.path.has_value());
  std::int64_t sum = 0;
  std::set<std::string> parts;
  for (const PathPart& part : summary.path->parts) {
    sum += part.ns;
    parts.insert(part.what);
  }
  EXPECT_EQ(sum, summary.path->ns);
  EXPECT_THAT(parts, Contains("decoder #" + std::to_string(summary.path->batch)));
}

TEST_F(TraceRunTest, DroppedEventsAreReportedInFactsAndSummary) {
  options_.events_per_row = 3;
  const Trace traced = trace();
  EXPECT_THAT(traced.facts, Contains(Pair("missing in decoder", "3 events")));
  EXPECT_THAT(trace_text(summarize_trace(*traced.recorder)), HasSubstr("full: decoder: 3 events"));
}

TEST_F(TraceRunTest, InterruptedTraceHoldsCompletedSteps) {
  int left = 8;
  options_.stop = [&] { return --left < 0; };
  const Trace traced = trace();
  EXPECT_TRUE(traced.run.interrupted);
  EXPECT_EQ(traced_batches(traced, Kind::lane).size(), traced.run.steps);
  EXPECT_LT(traced.run.steps, 6U);
}

TEST_F(TraceRunTest, ZeroStepsAndUnknownInputAreRefused) {
  options_.steps = 0;
  EXPECT_EQ(thrown_by([&] { trace(); }), "Refused: a trace needs at least 1 step");
  options_.steps = 2;
  options_.input = "hsot";
  EXPECT_THAT(thrown_by([&] { trace(); }), HasSubstr("did you mean 'host'?"));
  EXPECT_EQ(trainer_.position(), 0U);
}

}  // namespace
}  // namespace slipstream
