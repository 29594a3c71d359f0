#include "report/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <sstream>

#include "report/watch_report.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Duration of a step, and the state of its input.
struct FedStep {
  double seconds = 0.125;
  double waited_s = 0;
  std::size_t filled = 4;
  std::optional<double> busy_s = {};  ///< empty: the time in which it does not wait
};

/// Simulates the Progress of a run with given times. Its samples take 1, 2, 4 and 0.5 ms in the
/// four host steps.
struct WatchFeed {
  static constexpr std::uint64_t kSamples = 8;

  /// The result is valid until the next call.
  const Progress& next(const FedStep& step) {
    ++progress.step;
    progress.elapsed_s += step.seconds;
    progress.blocked_s += step.waited_s;
    progress.busy_s += step.busy_s.value_or(step.seconds - step.waited_s);
    progress.input.reset();
    progress.host_counters = {};
    if (!has_loader) return progress;
    progress.input = StepInput{step.filled, step.waited_s};
    progress.host_counters = [this] {
      ++times_counted;
      return counters;
    };
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const double seconds = 1e-3 * kSamples * std::array{1.0, 2.0, 4.0, 0.5}[i];
      counters[i].add({"", kSamples, seconds, seconds / 2});
    }
    return progress;
  }

  /// Starts a part of the run, in which sums restart from 0.
  void begin_part(std::uint64_t steps) {
    progress.part_began_s = progress.elapsed_s;
    progress.part_ends = progress.step + steps;
    progress.blocked_s = progress.busy_s = 0;
    for (StepCounter& counter : counters) counter = {.name = counter.name};
  }

  Progress progress;
  std::vector<StepCounter> counters = {
      {.name = "read"}, {.name = "decode"}, {.name = "blur"}, {.name = "collate"}};
  std::size_t times_counted = 0;
  bool has_loader = true;
};

constexpr FedStep kFed = {};
constexpr FedStep kStarved = {.seconds = 0.25, .waited_s = 0.125, .filled = 0};

/// A watch together with the windows that it has returned.
struct Watched {
  explicit Watched(const WatchOptions& options = {}) : watch(options) {}

  void train(std::uint64_t steps, const FedStep& step) {
    for (std::uint64_t i = 0; i < steps; ++i) keep(watch.update(feed.next(step)));
  }
  void finish() { keep(watch.finish()); }
  void keep(const WatchWindow* window) {
    if (window != nullptr) windows.push_back(*window);
  }
  std::vector<std::string_view> events() const {
    std::vector<std::string_view> events;
    for (const WatchWindow& window : windows)
      if (!window.event.empty()) events.push_back(window.event);
    return events;
  }

  StarvationWatch watch;
  WatchFeed feed;
  std::vector<WatchWindow> windows;
};

TEST(Watch, OnlyRepeatedWaitsAreReportedAsStarvationAndOnlyOnce) {
  struct Case {
    std::string name;
    std::vector<std::pair<std::uint64_t, FedStep>> stretches;
    std::vector<std::string_view> events;
    int repeats = 1;
  };
  const std::vector<std::string_view> none, once = {"starved"}, both = {"starved", "recovered"};
  for (const Case& tested : std::vector<Case>{
           {"waits below the limit", {{500, {.waited_s = 0.004}}}, none},
           {"starves, then is fed", {{105, kFed}, {60, kStarved}, {200, kFed}}, both},
           {"host waits, device is busy", {{300, {.waited_s = 0.05, .busy_s = 0.124}}}, none},
           {"device is idle, host does not wait",
            {{50, {.seconds = 0.2, .waited_s = 0.1, .busy_s = 0.15}}, {300, {.busy_s = 0.05}}},
            both},
           {"one wait of 1 s", {{100, kFed}, {1, {.seconds = 1, .waited_s = 1}}, {99, kFed}}, none},
           {"one wait of 60 s",
            {{99, kFed}, {1, {.seconds = 60, .waited_s = 60}}, {99, kFed}},
            none},
           {"long waits far apart among small ones",
            {{200, {.waited_s = 0.006}},
             {1, {.seconds = 10, .waited_s = 10}},
             {200, {.waited_s = 0.006}},
             {1, {.seconds = 30, .waited_s = 30}},
             {1, {.seconds = 0.18, .waited_s = 0.08}},
             {200, kFed}},
            none},
           {"waits in the first window alone",
            {{1, {.seconds = 3, .waited_s = 3}},
             {4, {.seconds = 0.3, .waited_s = 0.3}},
             {99, kFed}},
            none},
           {"long waits again and again",
            {{20, kFed}, {1, {.seconds = 1, .waited_s = 1}}},
            once,
            100},
           {"around the limits", {{10, {.waited_s = 0.025}}, {10, {.waited_s = 0.007}}}, once, 100},
           {"steps longer than a window", {{4, {.seconds = 30, .waited_s = 20}}}, once}}) {
    Watched run;
    for (int i = 0; i < tested.repeats; ++i)
      for (const auto& [steps, step] : tested.stretches) run.train(steps, step);
    EXPECT_EQ(run.events(), tested.events) << tested.name;
    EXPECT_EQ(run.windows[0].state, "warming_up") << tested.name;
    EXPECT_EQ(run.windows[1].state, "fed") << tested.name;
    EXPECT_EQ(run.windows.back().state, tested.events == once ? "starving" : "fed") << tested.name;
    EXPECT_EQ(run.watch.totals().starvations, tested.events.empty() ? 0U : 1U) << tested.name;
  }
}

TEST(Watch, MessagesContainWaitShareAndNoCause) {
  Watched run;
  run.train(104, kFed);
  run.train(32, kStarved);
  run.train(96, kFed);
  std::vector<std::string> messages;
  for (const WatchWindow& window : run.windows)
    if (!window.message.empty()) messages.push_back(window.message);
  EXPECT_THAT(messages,
              ElementsAre("step 112: starving: the device waits for input 20 % of the time, with "
                          "3.0 batches ready; run 'slipstream doctor' to find the cause",
                          "step 176: recovered: the device waits for input 0 % of the time, with "
                          "4.0 batches ready, after 60 steps (11 s)"));
  EXPECT_EQ(run.watch.totals().starved_s, 11);
}

TEST(Watch, WindowsLastAtLeastOneSecondAndFourSteps) {
  Watched slow, fast;
  slow.train(20, {.seconds = 0.9});
  ASSERT_EQ(slow.windows.size(), 5U);
  EXPECT_EQ(slow.windows[3].steps, 4U);
  EXPECT_EQ(slow.windows[3].step, 16U);
  fast.train(20'000, {.seconds = 1e-3, .waited_s = 1e-4});
  EXPECT_NEAR(static_cast<double>(fast.windows.size()), 20, 1);
  EXPECT_NEAR(fast.windows.back().input_wait_share(), 0.1, 1e-6);
  EXPECT_NEAR(static_cast<double>(fast.feed.times_counted), 20 * 5, 20)
      << "counters are read a few times per second";
}

TEST(Watch, LastStepsFormWindowOfAnyLength) {
  Watched run({.workers = 1});
  run.feed.progress.steps = 33;
  run.train(33, {.seconds = 0.01, .waited_s = 0.005});
  EXPECT_THAT(run.windows, IsEmpty());
  run.finish();
  run.finish();
  ASSERT_EQ(run.windows.size(), 1U);
  EXPECT_EQ(run.windows[0].steps, 33U);
  EXPECT_EQ(run.windows[0].host[3].calls, 33 * WatchFeed::kSamples);
  EXPECT_TRUE(run.windows[0].workers_busy);
  run.train(5, {.seconds = 1e-5});
  run.finish();
  EXPECT_EQ(run.windows.back().steps, 5U);
  EXPECT_FALSE(run.windows.back().has_rates());
  EXPECT_FALSE(run.windows.back().workers_busy);
}

TEST(Watch, ReadersDoNotCountAsBusyWorkers) {
  for (const auto& [options, busy] :
       {std::pair(WatchOptions{}, -1.0), std::pair(WatchOptions{.workers = 2}, 8 * 7.5e-3 / 0.25),
        std::pair(WatchOptions{.workers = 2, .read_ahead = true}, 8 * 6.5e-3 / 0.25)}) {
    Watched run(options);
    run.train(40, kFed);
    EXPECT_NEAR(run.windows.back().workers_busy.value_or(-1), busy, 1e-6);
  }
}

TEST(Watch, PartsOfRunAreSummedButJudgedSeparately) {
  Watched run;
  for (int part = 0; part < 5; ++part) {
    run.feed.begin_part(4);
    run.train(1, {.seconds = 30});  // two windows end: the one of the preceding part, and this one
    run.train(1, kFed);
    run.train(1, {.seconds = 12, .waited_s = 12});
    run.train(1, {.seconds = 0.25, .waited_s = 0.25});  // too short a window for a verdict
  }
  run.finish();
  std::uint64_t steps = 0;
  for (const WatchWindow& window : run.windows) {
    EXPECT_EQ(window.step, steps += window.steps);
    EXPECT_LE(window.waited_s, window.seconds);
  }
  const WatchTotals& totals = run.watch.totals();
  EXPECT_EQ(totals.steps, 5 * 4U);
  EXPECT_NEAR(totals.seconds, run.feed.progress.elapsed_s, 1e-9);
  EXPECT_NEAR(totals.waited_s, 5 * 12.25, 1e-9);
  ASSERT_EQ(totals.host.size(), 4U);
  EXPECT_EQ(totals.host[0].calls, 5 * 4 * WatchFeed::kSamples);
  EXPECT_THAT(run.events(), IsEmpty());
}

TEST(Watch, OneFedWindowOfNewPartIsNotRecovery) {
  Watched run;
  run.train(40, kStarved);
  run.feed.begin_part(24);
  run.train(16, kFed);
  EXPECT_EQ(run.windows.back().state, "starving");
  run.train(8, kFed);
  EXPECT_EQ(run.windows.back().state, "fed");
}

TEST(Watch, WithoutLoaderNothingIsJudged) {
  Watched run;
  run.feed.has_loader = false;
  run.train(50, {.seconds = 0.2, .waited_s = 0.1});
  for (const WatchWindow& window : run.windows) EXPECT_EQ(window.state, "no_loader");
  EXPECT_FALSE(run.windows.back().batches_ready);
  EXPECT_THAT(run.windows.back().host, IsEmpty());
  EXPECT_EQ(run.watch.totals().judged_s, 0);
}

const WatchWindow kWindow = {.step = 116,
                             .steps = 6,
                             .elapsed_s = 13.25,
                             .seconds = 1.5,
                             .waited_s = 0.75,
                             .batches_ready = 0.5,
                             .host = {{"read", 48, 0.048, 0.024}, {"a\nb\xff", 0, 0, 0}},
                             .workers_busy = 0.25,
                             .state = "starving",
                             .event = "starved",
                             .message = "told"};

TEST(WatchJson, IsOneLineWithNullForUnknownValues) {
  EXPECT_EQ(watch_json(kWindow),
            R"({"schema":"slipstream.watch","version":1,"step":116,"elapsed_s":13.25,)"
            R"("steps":6,"window_s":1.5,"steps_per_second":4.0,"input_wait_share":0.5,)"
            R"("batches_ready":0.5,"workers_busy":0.25,"state":"starving","event":"starved",)"
            R"("message":"told","host_steps":[)"
            R"({"name":"read","group":"read","samples":48,"wall_ms":1.0,"cpu_ms":0.5},)"
            R"({"name":"a\nb)"
            "\xef\xbf\xbd"
            R"(","group":"collate","samples":0,"wall_ms":null,"cpu_ms":null}]})");
  EXPECT_EQ(watch_json({.step = 1, .steps = 1, .elapsed_s = 2, .seconds = 1e-3}),
            R"({"schema":"slipstream.watch","version":1,"step":1,"elapsed_s":2.0,"steps":1,)"
            R"("window_s":0.001,"steps_per_second":null,"input_wait_share":null,)"
            R"("batches_ready":null,"workers_busy":null,"state":"warming_up","event":null,)"
            R"("message":null,"host_steps":[]})");
}

TEST(WatchPrometheus, ContainsRunCountersAndLastWindowGauges) {
  const WatchTotals totals = {.steps = 116,
                              .seconds = 13.25,
                              .waited_s = 0.75,
                              .starved_s = 1.5,
                              .starvations = 1,
                              .host = {{"read", 48, 0.5, 0.25}, {"a\"b\\c\nd\xff", 48, 1, 1}}};
  std::string text = watch_prometheus(totals, &kWindow, "a \"run\"");
  for (const char* header :
       {"# HELP slipstream_steps_total Training steps done.\n"
        "# TYPE slipstream_steps_total counter\n",
        "# HELP slipstream_batches_ready Prefetched batches, mean over the last window.\n"
        "# TYPE slipstream_batches_ready gauge\n"})
    EXPECT_THAT(text, HasSubstr(header));
  std::string samples;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.starts_with("#")) samples += line + "\n";
  EXPECT_EQ(samples, R"(slipstream_steps_total{run="a \"run\""} 116
slipstream_run_seconds_total{run="a \"run\""} 13.25
slipstream_input_wait_seconds_total{run="a \"run\""} 0.75
slipstream_starved_seconds_total{run="a \"run\""} 1.5
slipstream_starvations_total{run="a \"run\""} 1
slipstream_starving{run="a \"run\""} 1
slipstream_batches_ready{run="a \"run\""} 0.5
slipstream_host_step_seconds_total{run="a \"run\"",step="read"} 0.5
slipstream_host_step_seconds_total{run="a \"run\"",step="a\"b\\c\nd\\xff"} 1
slipstream_host_step_cpu_seconds_total{run="a \"run\"",step="read"} 0.25
slipstream_host_step_cpu_seconds_total{run="a \"run\"",step="a\"b\\c\nd\\xff"} 1
slipstream_host_step_samples_total{run="a \"run\"",step="read"} 48
slipstream_host_step_samples_total{run="a \"run\"",step="a\"b\\c\nd\\xff"} 48
)");
  EXPECT_THAT(watch_prometheus(totals, nullptr, "one"), Not(HasSubstr("gauge")));
  EXPECT_THAT(watch_prometheus({}, nullptr, "one"), Not(HasSubstr("host_step")));
}

class RunWatchTest : public testing::Test {
 protected:
  /// Trains for windows of one second, in each of which the device waits half of the time. Returns
  /// the printed text.
  std::string train(RunWatch& watch, int windows) {
    out_.str("");
    for (int i = 0; i < 4 * windows; ++i)
      watch.update(feed_.next({.seconds = 0.25, .waited_s = 0.125, .filled = 0}));
    return out_.str();
  }

  TemporaryFolder folder_;
  const fs::path json_ = folder_.path() / "watch.jsonl";
  const fs::path prom_ = folder_.path() / "night.prom";
  std::ostringstream out_;
  ProgressLine line_{out_, {}};
  WatchFeed feed_;
};

TEST_F(RunWatchTest, PrintsTheEventAndWritesBothFilesInEachWindow) {
  RunWatch watch(json_, prom_, line_);
  EXPECT_EQ(train(watch, 1) + watch.summary(), "");
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "the watch has not begun";
  feed_ = {};
  watch.begin({});
  EXPECT_EQ(train(watch, 1), "");
  EXPECT_EQ(watch.summary(),
            "watch: the run was too short to judge; the device waited for input 0.5 s of 1.0 s\n");
  const std::string said = train(watch, 4);
  EXPECT_THAT(said, testing::MatchesRegex("step 12: starving: the device waits [^\n]*\n"));
  const std::string lines = read_text(json_);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);
  EXPECT_THAT(lines, HasSubstr("\"message\":\"" + said.substr(0, said.size() - 1) + "\""));
  EXPECT_THAT(read_text(prom_), HasSubstr("slipstream_starving{run=\"night\"} 1\n"));
  watch.update(feed_.next({}));
  watch.finish();
  EXPECT_THAT(read_text(json_), HasSubstr("\"step\":21,"));
  EXPECT_THAT(read_text(prom_), HasSubstr("slipstream_steps_total{run=\"night\"} 21\n"));
  EXPECT_THAT(read_text(prom_), Not(HasSubstr("gauge"))) << "the watch has ended";
  EXPECT_EQ(watch.summary(),
            "watch: starved 1 time, 3.1 s; the device waited for input 2.5 s of 5.1 s\n");
}

TEST_F(RunWatchTest, FullDiskIsReportedOnceAndOtherFileContinues) {
  RunWatch watch(json_, prom_, line_);
  watch.begin({});
  feed_.has_loader = false;  // makes lines shorter
  train(watch, 1);
  const std::string before = read_text(prom_);
  {
    const WriteLimit limit(before.size() - 10);
    EXPECT_EQ(train(watch, 1), "warning: cannot write " + prom_.string() +
                                   ": File too large; training continues without that file\n");
  }
  EXPECT_EQ(train(watch, 1), "");
  EXPECT_EQ(read_text(prom_), before);
  EXPECT_THAT(read_text(json_), HasSubstr("\"step\":12,"));
}

TEST_F(RunWatchTest, UnwritablePathsAreRefused) {
  const std::string missing = folder_.path() / "no" / "file";
  struct Case {
    std::string json, prom, words;
  };
  for (const Case& each : std::vector<Case>{
           {missing, "", "Refused: cannot write " + missing},
           {"", missing, "Refused: cannot write " + missing},
           {"", folder_.path(), "it is a folder"},
           {"", "/dev/null", "Refused: cannot replace /dev/null: it is not a regular file"}})
    EXPECT_THAT(thrown_by([&] { RunWatch(each.json, each.prom, line_); }), HasSubstr(each.words));
}

}  // namespace
}  // namespace slipstream
