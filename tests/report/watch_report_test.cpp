#include "report/watch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "report/json_keys.h"
#include "report/watch_feed.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WatchFeed starved_feed() {
  WatchFeed feed({.workers = 4});
  feed.tell(100, {});
  feed.tell(30, {.seconds = 0.2, .waited_s = 0.1, .filled = 0});
  return feed;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// To three decimals.
void round_numbers(Json& json) {
  for (Json& each : json) {
    if (each.is_structured()) round_numbers(each);
    if (each.is_number_float()) each = std::round(1e3 * each.get<double>()) / 1e3;
  }
}

/// Reads Prometheus' text format: values by name and labels. Fails the test for a sample without
/// HELP and TYPE right ahead of its family, a family or a sample that comes twice, a counter that
/// does not end in _total, and anything else than the format allows.
class Metrics {
 public:
  explicit Metrics(const std::string& text) {
    EXPECT_TRUE(text.ends_with("\n"));
    for (const std::string& line : lines_of(text)) read(line);
  }

  double operator[](const std::string& sample) const {
    const auto found = values_.find(sample);
    return found == values_.end() ? -1 : found->second;
  }
  std::size_t size() const { return values_.size(); }

 private:
  static bool is_name(const std::string& text) {
    return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == text.npos;
  }

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string hash, kind, name, type;
    if (line.starts_with("# HELP ")) {
      words >> hash >> kind >> family_;
      EXPECT_TRUE(is_name(family_) && families_.insert(family_).second) << line;
      type_.clear();
    } else if (line.starts_with("# TYPE ")) {
      words >> hash >> kind >> name >> type_;
      EXPECT_EQ(name, family_);
      EXPECT_THAT(type_, testing::AnyOf("counter", "gauge"));
      EXPECT_EQ(type_ == "counter", family_.ends_with("_total")) << line;
    } else {
      read_sample(line);
    }
  }

  void read_sample(const std::string& line) {
    const std::size_t open = line.find('{');
    ASSERT_NE(open, std::string::npos) << line;
    EXPECT_EQ(line.substr(0, open), family_);
    EXPECT_FALSE(type_.empty()) << "no TYPE ahead of " << line;
    std::size_t at = open + 1;
    std::string labels;
    while (at < line.size() && line[at] != '}') {
      const std::size_t quote = line.find("=\"", at);
      ASSERT_NE(quote, std::string::npos) << line;
      EXPECT_TRUE(is_name(line.substr(at, quote - at))) << line;
      labels += line.substr(at, quote - at) + "=";
      for (at = quote + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') ++at;
        ASSERT_LT(at, line.size());
        labels += line[at];
      }
      if (++at < line.size() && line[at] == ',') {
        ++at;
        labels += ",";
      }
    }
    ASSERT_EQ(line.substr(at, 2), "} ") << line;
    std::size_t used = 0;
    const std::string number = line.substr(at + 2);
    const double value = std::stod(number, &used);
    EXPECT_EQ(used, number.size()) << line;
    EXPECT_TRUE(values_.emplace(family_ + "{" + labels + "}", value).second) << line;
  }

  std::string family_, type_;
  std::set<std::string> families_;
  std::map<std::string, double> values_;
};

TEST(WatchJson, IsThisLine) {
  const WatchFeed feed = starved_feed();
  const auto told = std::find_if(feed.windows.begin(), feed.windows.end(),
                                 [](const auto& each) { return !each.message.empty(); });
  ASSERT_NE(told, feed.windows.end());
  Json line = Json::parse(watch_json(*told));
  EXPECT_EQ(line["message"], told->message);
  line["message"] = "";
  round_numbers(line);
  EXPECT_EQ(line.dump(), R"({"schema":"slipstream.watch","version":1,"step":116,"elapsed_s":13.2,)"
                         R"("steps":6,"window_s":1.2,"steps_per_second":5.0,)"
                         R"("input_wait_share":0.5,"batches_ready":0.0,"workers_busy":0.075,)"
                         R"("state":"starving","event":"starved","message":"",)"
                         R"("cause":{"group":"transforms","step":"blur","share":0.6,)"
                         R"("cpu_share":1.0,"growth":1.0},"host_steps":[)"
                         R"({"name":"read","group":"raw_reading","samples":48,)"
                         R"("samples_per_second":40.0,"wall_ms":1.0,"cpu_ms":1.0},)"
                         R"({"name":"decode","group":"decode","samples":48,)"
                         R"("samples_per_second":40.0,"wall_ms":2.0,"cpu_ms":2.0},)"
                         R"({"name":"blur","group":"transforms","samples":48,)"
                         R"("samples_per_second":40.0,"wall_ms":4.0,"cpu_ms":4.0},)"
                         R"({"name":"collate","group":"transforms","samples":48,)"
                         R"("samples_per_second":40.0,"wall_ms":0.5,"cpu_ms":0.5}]})");
}

TEST(WatchJson, EveryWindowIsOneLineWithTheSameKeys) {
  WatchFeed feed;
  feed.counters[0].name = "a\nb\xff";
  feed.tell(100, {});
  feed.tell(30, {.seconds = 0.2, .waited_s = 0.1, .filled = 0});
  feed.finish();
  feed.has_loader = false;
  feed.progress.input.reset();
  feed.tell({.seconds = 1e-6});
  feed.finish();
  const std::vector<std::string> keys = keys_of(Json::parse(watch_json(feed.windows.front())));
  for (const WatchWindow& window : feed.windows) {
    const std::string line = watch_json(window);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(keys_of(Json::parse(line)), keys);
  }
  const Json last = Json::parse(watch_json(feed.windows.back()));
  for (const char* key : {"steps_per_second", "input_wait_share", "event", "message", "cause"})
    EXPECT_TRUE(last.at(key).is_null()) << key;
}

TEST(WatchPrometheus, HoldsTheTotalsAndTheLastWindow) {
  const WatchFeed feed = starved_feed();
  const WatchTotals& totals = feed.watch.totals();
  const Metrics metrics(watch_prometheus(totals, &feed.windows.back(), "one"));
  EXPECT_EQ(metrics["slipstream_steps_total{run=one}"], static_cast<double>(totals.steps));
  EXPECT_EQ(metrics["slipstream_run_seconds_total{run=one}"], totals.seconds);
  EXPECT_EQ(metrics["slipstream_input_wait_seconds_total{run=one}"], totals.waited_s);
  EXPECT_EQ(metrics["slipstream_starved_seconds_total{run=one}"], totals.starved_s);
  EXPECT_EQ(metrics["slipstream_starvations_total{run=one}"], 1);
  EXPECT_EQ(metrics["slipstream_starving{run=one}"], 1);
  EXPECT_EQ(metrics["slipstream_batches_ready{run=one}"], 0);
  EXPECT_EQ(metrics["slipstream_host_step_seconds_total{run=one,step=decode}"],
            totals.host[1].wall_s);
  EXPECT_EQ(metrics["slipstream_host_step_cpu_seconds_total{run=one,step=blur}"],
            totals.host[2].cpu_s);
  EXPECT_EQ(metrics["slipstream_host_step_samples_total{run=one,step=read}"],
            static_cast<double>(totals.host[0].calls));
  EXPECT_EQ(metrics.size(), 7U + 3 * 4);
}

TEST(WatchPrometheus, ARunThatIsOverHasNoGauges) {
  const WatchFeed feed = starved_feed();
  const std::string text = watch_prometheus(feed.watch.totals(), nullptr, "one");
  EXPECT_THAT(text, testing::Not(HasSubstr("gauge")));
  EXPECT_EQ(Metrics(text)["slipstream_starvations_total{run=one}"], 1);
  EXPECT_EQ(Metrics(text).size(), 5U + 3 * 4);
}

TEST(WatchPrometheus, LabelsAreEscaped) {
  WatchFeed feed;
  feed.counters[2].name = "a\"b\\c\nd\xff";
  feed.tell(30, {});
  const std::string text =
      watch_prometheus(feed.watch.totals(), &feed.windows.back(), "night \"run\"");
  EXPECT_THAT(text, HasSubstr("{run=\"night \\\"run\\\"\",step=\"a\\\"b\\\\c\\nd\\\\xff\"}"));
  EXPECT_EQ(Metrics(text).size(), 7U + 3 * 4);
}

TEST(WatchPrometheus, WithoutALoaderThereAreNoFiguresOfOne) {
  WatchFeed feed;
  feed.has_loader = false;
  feed.tell(30, {});
  EXPECT_EQ(Metrics(watch_prometheus(feed.watch.totals(), &feed.windows.back(), "one")).size(), 6U);
}

class WatchFilesTest : public testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  std::string write(WatchFiles& files, std::size_t window) const {
    return files.write(feed_.windows.at(window), feed_.watch.totals());
  }

  TemporaryFolder folder_;
  const fs::path json_ = folder_.path() / "watch.jsonl";
  const fs::path prom_ = folder_.path() / "night.prom";
  const WatchFeed feed_ = starved_feed();
};

TEST_F(WatchFilesTest, OneGrowsByALineTheOtherIsReplaced) {
  WatchFiles files(json_, prom_);
  EXPECT_EQ(entries(), 0U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(write(files, i), "");
    EXPECT_EQ(lines_of(read_text(json_)).size(), i + 1);
    EXPECT_EQ(read_text(prom_), watch_prometheus(feed_.watch.totals(), &feed_.windows[i], "night"));
    EXPECT_EQ(entries(), 2U);
  }
  EXPECT_EQ(lines_of(read_text(json_))[1], watch_json(feed_.windows[1]));
}

TEST_F(WatchFilesTest, TheEndLeavesTheCounters) {
  WatchFiles files(json_, prom_);
  EXPECT_EQ(write(files, 0), "");
  EXPECT_EQ(files.end(feed_.watch.totals()), "");
  EXPECT_EQ(read_text(prom_), watch_prometheus(feed_.watch.totals(), nullptr, "night"));
  EXPECT_EQ(lines_of(read_text(json_)).size(), 1U);
}

TEST_F(WatchFilesTest, AFileThatIsTakenAwayIsBegunAnew) {
  WatchFiles files(json_, "");
  EXPECT_EQ(write(files, 0), "");
  fs::remove(json_);
  EXPECT_EQ(write(files, 1), "");
  EXPECT_EQ(read_text(json_), watch_json(feed_.windows[1]) + "\n");
  const fs::path old = folder_.path() / "watch.jsonl.1";
  fs::rename(json_, old);
  EXPECT_EQ(write(files, 2), "");
  EXPECT_EQ(read_text(json_), watch_json(feed_.windows[2]) + "\n");
  EXPECT_EQ(lines_of(read_text(old)).size(), 1U);
}

TEST_F(WatchFilesTest, WithoutNamesThereAreNone) {
  WatchFiles files("", "");
  EXPECT_EQ(write(files, 0), "");
  EXPECT_EQ(entries(), 0U);
}

TEST_F(WatchFilesTest, ALinkIsReplacedWhereItLeads) {
  const fs::path place = folder_.path() / "place.prom";
  write_file_atomically(place, "old");
  fs::create_symlink(place, prom_);
  ASSERT_EQ(::link(place.c_str(), (folder_.path() / "old").c_str()), 0);
  WatchFiles files("", prom_);
  EXPECT_EQ(write(files, 0), "");
  EXPECT_TRUE(fs::is_symlink(prom_));
  EXPECT_THAT(read_text(place), HasSubstr("run=\"night\""));
  EXPECT_EQ(read_text(folder_.path() / "old"), "old") << "a new file takes the name";
}

TEST_F(WatchFilesTest, AFullDiskIsSaidOnceAndTheOtherFileGoesOn) {
  for (const bool is_json : {true, false}) {
    WatchFiles files(json_, prom_);
    EXPECT_EQ(write(files, 0), "");
    const std::string before = read_text(is_json ? json_ : prom_);
    {
      const std::size_t json_bytes = read_text(json_).size();
      const WriteLimit limit(is_json ? json_bytes + 100 : 100);
      const std::string said = write(files, 1);
      EXPECT_THAT(said, HasSubstr((is_json ? json_ : prom_).string() +
                                  ": File too large; "
                                  "training goes on without that file"));
      EXPECT_EQ(write(files, 2), "");
    }
    EXPECT_EQ(write(files, 3), "");
    EXPECT_EQ(read_text(is_json ? json_ : prom_), before);
  }
}

TEST_F(WatchFilesTest, WhatCannotBeWrittenIsRefused) {
  const fs::path missing = folder_.path() / "no" / "file";
  const auto refusal = [](const fs::path& json, const fs::path& prom) {
    return thrown_by([&] { WatchFiles(json, prom); });
  };
  EXPECT_THAT(refusal(missing, ""), HasSubstr("Refused: cannot write " + missing.string()));
  EXPECT_THAT(refusal("", missing), HasSubstr("Refused: cannot write " + missing.string()));
  EXPECT_THAT(refusal("", folder_.path()), HasSubstr("it is a folder"));
  const fs::path pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal(pipe, ""), HasSubstr("nobody reads it"));
  for (const fs::path& no_file : {pipe, fs::path("/dev/null")})
    EXPECT_THAT(refusal("", no_file),
                HasSubstr("Refused: cannot replace " + no_file.string() + ": it is not a file"));
}

}  // namespace
}  // namespace slipstream
