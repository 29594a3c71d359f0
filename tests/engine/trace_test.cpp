#include <gmock/gmock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <map>
#include <mutex>
#include <set>

#include "core/trace.h"
#include "engine/engine.h"

namespace slipstream::test {
namespace {

using Kind = TraceRow::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kTraceSteps = 20;
/// Tolerance for the order of GPU and host times, in addition to the clock error that the trace
/// records.
constexpr std::int64_t kClocksApartNs = 200'000;

class TraceTest : public EngineTest {
 protected:
  RunResult traced(Trainer& one, const Plan& plan, std::optional<Cut> cut = {}) {
    RunOptions options = steps(kTraceSteps);
    options.cut = std::move(cut);
    RunHooks hooks;
    hooks.trace = recorder_;
    begin_ns_ = trace_now_ns();
    RunResult result = run_with(one, plan, options, hooks);
    end_ns_ = trace_now_ns();
    recorder_->stop();
    return result;
  }

  std::vector<const TraceRow*> rows(Kind kind) const {
    std::vector<const TraceRow*> rows = recorder_->rows();
    std::erase_if(rows, [kind](const TraceRow* row) { return row->kind() != kind; });
    return rows;
  }

  /// Checks that the row has every step of each batch from number `first` once, one after another.
  void expect_steps(const TraceRow& row, std::uint64_t first) const {
    const std::size_t steps = row.names().size();
    ASSERT_EQ(row.events().size(), kTraceSteps * steps) << row.name();
    std::int64_t at_ns = begin_ns_ - slack_ns();
    for (std::size_t i = 0; i < row.events().size(); ++i) {
      const TraceEvent& event = row.events()[i];
      EXPECT_EQ(event.batch, first + i / steps) << row.name();
      EXPECT_EQ(event.name, i % steps) << row.name();
      EXPECT_LE(event.begin_ns, event.end_ns) << row.name();
      EXPECT_GE(event.begin_ns, at_ns) << row.name();
      at_ns = event.end_ns - slack_ns();
    }
    EXPECT_LE(at_ns, end_ns_) << row.name();
  }

  std::int64_t slack_ns() const {
    return on_gpu() ? kClocksApartNs + recorder_->clock_error_ns() : 1'000;
  }

  static const Plan& pipelined() {
    static const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
    return plan;
  }

  std::shared_ptr<TraceRecorder> recorder_ =
      std::make_shared<TraceRecorder>(TraceRecorder::Options{});
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
};

TEST_F(TraceTest, EveryLaneRowHasEveryStepOfEveryBatch) {
  for (const Plan& plan : {serial_plan(), pipelined(),
                           build_plan({{"copy", "encode"}, {"train"}}, Driver::interleaved, 2)}) {
    SCOPED_TRACE(describe(plan));
    recorder_ = std::make_shared<TraceRecorder>(TraceRecorder::Options{});
    const auto one = trainer({});
    one->run(plan, steps(7));
    traced(*one, plan);
    const auto lanes = rows(Kind::lane);
    ASSERT_EQ(lanes.size(), plan.schedule.lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      EXPECT_EQ(lanes[i]->names(), plan.schedule.lanes[i].steps);
      EXPECT_EQ(lanes[i]->name(), plan.schedule.lanes[i].steps.back());
      expect_steps(*lanes[i], 7);
    }
    const auto host = rows(Kind::host);
    ASSERT_EQ(host.size(), on_gpu() ? lanes.size() : 0U);
    for (const TraceRow* row : host) expect_steps(*row, 7);
    EXPECT_EQ(recorder_->clock_error_ns() > 0, on_gpu());
  }
}

TEST_F(TraceTest, EventsOfABatchFollowSlabThenLaneOrder) {
  const auto one = trainer({});
  traced(*one, pipelined());
  std::map<std::uint64_t, std::int64_t> at_ns;
  for (const Kind kind : {Kind::slab, Kind::lane})
    for (const TraceRow* row : rows(kind))
      for (const TraceEvent& event : row->events()) {
        if (at_ns.contains(event.batch)) {
          EXPECT_GE(event.begin_ns, at_ns[event.batch] - slack_ns()) << event.batch;
        }
        at_ns[event.batch] = event.end_ns;
      }
  for (std::uint64_t batch = 0; batch < kTraceSteps; ++batch) EXPECT_TRUE(at_ns.contains(batch));
}

TEST_F(TraceTest, WorkerRowsContainEveryBatch) {
  const auto one = trainer({});
  Plan plan = pipelined();
  plan.schedule.loader.num_workers = 2;
  one->run(plan, steps(3));
  traced(*one, plan);
  ASSERT_EQ(rows(Kind::worker).size(), 2U);
  std::map<std::uint64_t, std::size_t> events;
  for (const TraceRow* row : rows(Kind::worker))
    for (const TraceEvent& event : row->events()) ++events[event.batch];
  for (std::uint64_t batch = 3; batch < 3 + kTraceSteps; ++batch)
    EXPECT_EQ(events[batch], 4U * 3) << batch;  // read, decode and collate for each of four samples
}

TEST_F(TraceTest, CachedInputHasNoWorkerOrSlabRows) {
  for (const char* after : {"decode", "collate", "copy"}) {
    recorder_ = std::make_shared<TraceRecorder>(TraceRecorder::Options{});
    const auto one = trainer({});
    traced(*one, pipelined(), Cut{after, 4});
    EXPECT_THAT(rows(Kind::worker), IsEmpty());
    EXPECT_THAT(rows(Kind::slab), IsEmpty());
    ASSERT_EQ(rows(Kind::lane).size(), std::string(after) == "copy" ? 2U : 3U);
    for (const TraceRow* lane : rows(Kind::lane)) expect_steps(*lane, 0);
  }
}

TEST_F(TraceTest, TracingDoesNotChangeTheDigest) {
  Tiny noisy;
  noisy.noisy = true;
  for (const Plan& plan : {serial_plan(), pipelined()}) {
    const auto one = trainer(noisy);
    EXPECT_EQ(traced(*one, plan).digest, fresh_run(noisy, plan, steps(kTraceSteps)).digest);
  }
}

TEST_F(TraceTest, BatchesBeforeFirstBatchAreNotRecorded) {
  recorder_ = std::make_shared<TraceRecorder>(TraceRecorder::Options{.first_batch = 15});
  const auto one = trainer({});
  traced(*one, pipelined());
  for (const TraceRow* row : recorder_->rows())
    for (const TraceEvent& event : row->events()) EXPECT_GE(event.batch, 15U) << row->name();
  EXPECT_EQ(rows(Kind::lane).front()->events().size(), kTraceSteps - 15);
}

TEST_F(TraceTest, FullRowDropsEventsAndRunContinues) {
  recorder_ = std::make_shared<TraceRecorder>(TraceRecorder::Options{.events_per_row = 5});
  const auto one = trainer({});
  EXPECT_EQ(traced(*one, pipelined()).steps, kTraceSteps);
  for (const TraceRow* lane : rows(Kind::lane)) {
    EXPECT_EQ(lane->events().size(), 5U);
    EXPECT_EQ(lane->dropped(), kTraceSteps - 5);
  }
}

/// Replaces PyTorch's NVTX calls.
class NvtxRecorder final : public torch::profiler::impl::ProfilerStubs {
 public:
  NvtxRecorder() : before_(torch::profiler::impl::cudaStubs()) {
    torch::profiler::impl::registerCUDAMethods(this);
  }
  ~NvtxRecorder() override {
    torch::profiler::impl::registerCUDAMethods(
        const_cast<torch::profiler::impl::ProfilerStubs*>(before_));
  }
  void rangePush(const char* name) const override {
    const std::lock_guard lock(mutex_);
    pushed_.insert(name);
  }
  void rangePop() const override {
    const std::lock_guard lock(mutex_);
    ++popped_;
  }
  bool enabled() const override { return true; }
  void record(c10::DeviceIndex*, torch::profiler::impl::ProfilerVoidEventStub*,
              int64_t*) const override {}
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub*,
                const torch::profiler::impl::ProfilerVoidEventStub*) const override {
    return 0;
  }
  void mark(const char*) const override {}
  void onEachDevice(std::function<void(int)>) const override {}
  void synchronize() const override {}

  const std::multiset<std::string>& pushed() const { return pushed_; }
  std::size_t popped() const { return popped_; }

 private:
  const torch::profiler::impl::ProfilerStubs* before_;
  mutable std::mutex mutex_;
  mutable std::multiset<std::string> pushed_;
  mutable std::size_t popped_ = 0;
};

TEST_F(TraceTest, EveryTracedStepIsAnNvtxRange) {
  const auto one = trainer({});
  {
    const NvtxRecorder untraced;
    one->run(pipelined(), steps(5));
    EXPECT_THAT(untraced.pushed(), IsEmpty());
  }
  const NvtxRecorder ranges;
  traced(*one, pipelined());
  std::multiset<std::string> expected;
  for (const char* step : {"copy", "encode", "train"})
    for (std::uint64_t batch = 5; batch < 5 + kTraceSteps; ++batch)
      expected.insert(std::string(step) + " #" + std::to_string(batch));
  EXPECT_EQ(ranges.pushed(), expected);
  EXPECT_EQ(ranges.popped(), expected.size());
}

TEST_F(TraceTest, ThrowingStepClosesItsNvtxRange) {
  Tiny tiny;
  tiny.loss = [](const at::Tensor& output, const Batch& batch) {
    if (batch.number() == 4) throw std::runtime_error("no luck");
    return output.square().mean();
  };
  const auto one = trainer(tiny);
  const NvtxRecorder ranges;
  EXPECT_THROW(traced(*one, pipelined()), Error);
  EXPECT_EQ(ranges.popped(), ranges.pushed().size());
  EXPECT_EQ(ranges.pushed().count("train #4"), 1U);
}

}  // namespace
}  // namespace slipstream::test
