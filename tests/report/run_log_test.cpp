#include "report/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <optional>

#include "core/files.h"
#include "report/json.h"
#include "report/samples.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kNever_s = 1e9;

class RunLogTest : public testing::Test {
 protected:
  fs::path path(const fs::path& name) const { return run_ / name; }
  std::string content(const fs::path& name) const { return read_text(path(name)); }
  std::vector<fs::path> event_files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(run_))
      if (entry.path().filename().string().starts_with("events.")) found.push_back(entry.path());
    return found;
  }
  std::string events() const {
    std::string all;
    for (const fs::path& file : event_files()) all += read_text(file);
    return all;
  }
  /// Writes a run of four steps with a row for every second one.
  void run_before() const {
    RunLog log(run_, 0, {});
    log.add(2, 0.5, 1, {{"train/loss", 3}});
    log.add(4, 1, 2, {{"train/loss", 2}, {"val/loss", 2.5}});
  }

  TemporaryFolder folder_;
  const fs::path run_ = folder_.path() / "runs" / "first";
};

constexpr const char* kTwoLines =
    "{\"step\":2,\"epoch\":0.5,\"time_s\":1.0,\"train/loss\":3.0}\n"
    "{\"step\":4,\"epoch\":1.0,\"time_s\":2.0,\"train/loss\":2.0,\"val/loss\":2.5}\n";

TEST_F(RunLogTest, RowsAreWrittenToEveryFileImmediately) {
  RunLog log(run_, 0, {}, kNever_s);
  EXPECT_EQ(content("metrics.jsonl"), "");
  EXPECT_EQ(content("metrics.csv"), "step,epoch,time_s\n");
  log.add(2, 0.5, 1, {{"train/loss", 3}});
  EXPECT_EQ(content("metrics.csv"), "step,epoch,time_s,train/loss\n2,0.5,1,3\n");
  log.add(4, 1, 2, {{"train/loss", 2}, {"val/loss", 2.5}});
  EXPECT_EQ(content("metrics.jsonl"), kTwoLines);
  EXPECT_EQ(content("metrics.csv"),
            "step,epoch,time_s,train/loss,val/loss\n2,0.5,1,3,\n4,1,2,2,2.5\n");
  log.add(5, 1.25, 2.5, {{"val/loss", 1}});
  EXPECT_THAT(content("metrics.csv"), EndsWith("\n5,1.25,2.5,,1\n"));
  EXPECT_EQ(event_files().size(), 1u);
  EXPECT_THAT(events(), HasSubstr("val/loss"));
  EXPECT_EQ(log.problem(), "");
}

TEST_F(RunLogTest, ColumnNamesAreEscapedAndReservedNamesThrow) {
  RunLog log(run_, 0, {});
  log.add(1, 0, 0, {{"iou/cat, \"big\"", 1}, {"bell\a", 2}});
  EXPECT_EQ(content("metrics.csv"),
            "step,epoch,time_s,\"iou/cat, \"\"big\"\"\",bell\\x07\n1,0,0,1,2\n");
  EXPECT_THAT(thrown_by([&] { log.add(2, 0, 0, {{"epoch", 1}}); }), StartsWith("other: "));
}

TEST_F(RunLogTest, NonFiniteValuesAreWrittenAsNullOrEmpty) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  RunLog log(run_, 0, {});
  log.add(1, NAN, 0, {{"loss", NAN}, {"lr", -kInfinite}});
  log.finish();
  EXPECT_EQ(content("metrics.jsonl"),
            "{\"step\":1,\"epoch\":null,\"time_s\":0.0,\"loss\":null,\"lr\":null}\n");
  EXPECT_EQ(content("metrics.csv"), "step,epoch,time_s,loss,lr\n1,,0,,\n");
  EXPECT_THAT(content("curves.svg"), Not(HasSubstr("<circle")));
  EXPECT_EQ(log.problem(), "");
}

TEST_F(RunLogTest, RunJsonContainsFacts) {
  const RunLog log(run_, 7,
                   {{"command", std::vector<std::string>{"train", "a b"}},
                    {"seed", std::uint64_t{3}},
                    {"data", "fingerprint"},
                    {"plan", JsonText{"{\"depth\": [1, 2]}"}},
                    {"environment", sample_environment()}});
  const Json json = Json::parse(content("run.json"));
  EXPECT_EQ(json.items().begin().key(), "schema");
  EXPECT_EQ(json["schema"], "slipstream.run_folder");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["first_step"], 7);
  EXPECT_EQ(json["command"], Json::parse("[\"train\", \"a b\"]"));
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["data"], "fingerprint");
  EXPECT_EQ(json["plan"]["depth"][1], 2);
  EXPECT_EQ(json["environment"]["compiler"], "g++ 12.2.0");
  EXPECT_THAT(thrown_by([&] {
                RunLog(run_, 0, {{"plan", JsonText{"{"}}}).finish();
              }),
              StartsWith("other: "));
}

TEST_F(RunLogTest, ResumeDropsRowsAfterFirstStep) {
  run_before();
  RunLog log(run_, 2, {}, kNever_s);
  EXPECT_EQ(content("metrics.jsonl"),
            "{\"step\":2,\"epoch\":0.5,\"time_s\":1.0,\"train/loss\":3.0}\n");
  EXPECT_EQ(content("metrics.csv"), "step,epoch,time_s,train/loss\n2,0.5,1,3\n");
  EXPECT_THAT(content("curves.svg"), HasSubstr("train/loss at step 2: 3"));
  log.add(4, 1, 2, {{"train/loss", 2}, {"val/loss", 2.5}});
  EXPECT_EQ(content("metrics.jsonl"), kTwoLines);
  EXPECT_EQ(event_files().size(), 2u);
}

TEST_F(RunLogTest, ResumeDropsPartialAndInvalidLines) {
  run_before();
  write_file_atomically(path("metrics.jsonl"),
                        "{\"step\": 1, \"epoch\": 0, \"time_s\": null, \"note\": \"x\"}\n"
                        "[]\n\xff\n{\"step\": -1, \"epoch\": 0, \"time_s\": 0}\n\n" +
                            std::string(kTwoLines) + "{\"step\":4,\"epoch\":1.0,\"time_s\":2");
  const RunLog log(run_, 4, {});
  EXPECT_EQ(content("metrics.jsonl"),
            "{\"step\":1,\"epoch\":0.0,\"time_s\":null}\n" + std::string(kTwoLines));
}

TEST_F(RunLogTest, NewRunDropsOldRows) {
  run_before();
  const RunLog log(run_, 0, {});
  EXPECT_EQ(content("metrics.jsonl"), "");
  EXPECT_EQ(content("metrics.csv"), "step,epoch,time_s\n");
  EXPECT_THAT(content("curves.svg"), HasSubstr("no values yet"));
}

TEST_F(RunLogTest, CurvesAreDrawnPeriodicallyAndAtFinish) {
  RunLog log(run_, 0, {}, kNever_s);
  log.add(1, 0, 0, {{"loss", 3}});
  EXPECT_THAT(content("curves.svg"), HasSubstr("no values yet"));
  log.finish();
  EXPECT_THAT(content("curves.svg"), HasSubstr("loss at step 1: 3"));
  EXPECT_THAT(content("curves.svg"), HasSubstr("Slipstream: first"));
  RunLog eager(run_, 0, {}, 0);
  eager.add(1, 0, 0, {{"loss", 4}});
  EXPECT_THAT(content("curves.svg"), HasSubstr("loss at step 1: 4"));
}

TEST_F(RunLogTest, SecondFinishWritesNothing) {
  RunLog log(run_, 0, {});
  log.finish();
  fs::rename(run_, folder_.path() / "moved");
  log.finish();
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(RunLogTest, RowsMissedBecauseOfSymlinkAreWrittenAfterItsRemoval) {
  RunLog log(run_, 0, {});
  log.add(1, 0, 0, {{"loss", 3}});
  fs::remove(path("metrics.csv"));
  fs::create_symlink("other", path("metrics.csv"));
  log.add(2, 0, 0, {{"loss", 2}});
  EXPECT_EQ(log.problem(), "cannot write " + path("metrics.csv").string() +
                               ": Too many levels of symbolic links; training continues, and the "
                               "next row tries again");
  EXPECT_FALSE(fs::exists(run_ / "other"));
  EXPECT_THAT(content("metrics.jsonl"), HasSubstr("{\"step\":2,"));
  fs::remove(path("metrics.csv"));
  log.add(3, 0, 0, {{"loss", 1}});
  EXPECT_EQ(content("metrics.csv"), "step,epoch,time_s,loss\n1,0,0,3\n2,0,0,2\n3,0,0,1\n");
  EXPECT_THAT(log.problem(), HasSubstr("symbolic links"));
}

TEST_F(RunLogTest, FullDiskLeavesCompleteLinesAndMissedRowsAreAddedLater) {
  RunLog log(run_, 0, {});
  std::uint64_t step = 0;
  const auto add = [&] { log.add(++step, 0, 0, {{"loss", 1}}); };
  add();
  {
    const WriteLimit limit(fs::file_size(path("metrics.jsonl")) + 10);
    for (int i = 0; i < 3; ++i) add();
    EXPECT_EQ(content("metrics.jsonl"), "{\"step\":1,\"epoch\":0.0,\"time_s\":0.0,\"loss\":1.0}\n");
    EXPECT_THAT(log.problem(), HasSubstr("File too large; training continues"));
  }
  add();
  const std::string rows = content("metrics.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 5);
  std::size_t found = 0;
  const std::string all = events();
  for (std::size_t at = 0; (at = all.find("loss", at)) != std::string::npos; ++at) ++found;
  EXPECT_EQ(found, 5u);
}

TEST_F(RunLogTest, FailedRunJsonIsWrittenWithNextRow) {
  run_before();
  std::optional<RunLog> log;
  {
    const WriteLimit limit(10);
    log.emplace(run_, 4, RunFacts{});
  }
  EXPECT_THAT(log->problem(), HasSubstr("run.json: File too large"));
  EXPECT_THAT(content("run.json"), HasSubstr("\"first_step\": 0"));
  log->add(5, 0, 0, {});
  EXPECT_THAT(content("run.json"), HasSubstr("\"first_step\": 4"));
}

TEST_F(RunLogTest, RemovedFolderIsRecreated) {
  run_before();
  RunLog log(run_, 2, {{"seed", std::uint64_t{3}}});
  log.add(3, 0, 0, {{"train/loss", 2}});
  fs::rename(run_, folder_.path() / "moved");
  log.add(4, 1, 2, {{"train/loss", 1}});
  EXPECT_THAT(content("metrics.jsonl"), StartsWith("{\"step\":2,"));
  EXPECT_THAT(content("metrics.csv"), EndsWith("\n3,0,0,2\n4,1,2,1\n"));
  EXPECT_THAT(content("run.json"), HasSubstr("\"seed\": 3"));
  EXPECT_EQ(event_files().size(), 1u);
  EXPECT_EQ(log.problem(),
            "the run folder " + run_.string() +
                " was removed; it has been created again, without the event files of "
                "earlier starts");
}

TEST_F(RunLogTest, FolderThatCannotBeRecreatedDoesNotStopTheRun) {
  RunLog log(run_, 0, {});
  fs::rename(run_, folder_.path() / "moved");
  write_file_atomically(run_, "in the way");
  log.add(1, 0, 0, {{"loss", 1}});
  EXPECT_THAT(log.problem(), HasSubstr("was removed and cannot be created again: "));
  fs::remove(run_);
  log.add(2, 0, 0, {{"loss", 1}});
  EXPECT_THAT(content("metrics.csv"), EndsWith("\n1,0,0,1\n2,0,0,1\n"));
}

TEST_F(RunLogTest, UnwritableOrUnreadableFilesAreRefusedAtStart) {
  const fs::path file = folder_.path() / "file";
  write_file_atomically(file, "x");
  EXPECT_THAT(thrown_by([&] { RunLog(file / "run", 0, {}).finish(); }),
              testing::AllOf(StartsWith("Refused: cannot create the run folder "),
                             EndsWith("; give another one")));
  EXPECT_THAT(thrown_by([&] { RunLog(file, 0, {}).finish(); }), StartsWith("Refused: cannot "));
  fs::create_directories(path("metrics.csv"));
  EXPECT_THAT(thrown_by([&] { RunLog(run_, 0, {}).finish(); }), HasSubstr("it is a folder"));
  fs::remove(path("metrics.csv"));
  ASSERT_EQ(::mkfifo(path("metrics.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(thrown_by([&] { RunLog(run_, 1, {}).finish(); }),
              HasSubstr("Refused: cannot read " + path("metrics.jsonl").string()));
}

}  // namespace
}  // namespace slipstream
