#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/environment.h"
#include "report/event_file.h"
#include "report/metrics_table.h"

namespace slipstream {

struct JsonText {
  std::string text;  ///< one value of JSON, such as a plan
};
using RunFact =
    std::variant<std::string, std::uint64_t, std::vector<std::string>, Environment, JsonText>;
using RunFacts = std::vector<std::pair<std::string, RunFact>>;

/// A text file of a head and a line for each row, which grows by appending.
class RowFile {
 public:
  explicit RowFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// Brings the file up to date with the first `rows` lines: appends those that it lacks, or writes
  /// it anew as a whole for the first time, for another head and where it has been removed. Throws
  /// Error with the path and the reason; the lines that are lacking then come with the next call.
  void write(const std::string& head, std::size_t rows,
             const std::function<std::string(std::size_t row)>& line);

 private:
  std::filesystem::path path_;
  std::optional<std::string> head_;  ///< of the file; nothing before it is written
  std::size_t rows_ = 0;             ///< in the file
};

/// Writes what a training run tells of itself into a folder: run.json, metrics.jsonl, metrics.csv,
/// an event file for TensorBoard and curves.svg (docs/run-folder.md). All rows stay in memory, too.
/// Nothing is synced: a power cut may lose the last rows; a process that is killed loses none. One
/// run writes to a folder at a time. Not thread-safe.
class RunLog {
 public:
  /// Makes `folder` where it is missing, and all files in it. `first_step` is the run's position at
  /// its beginning: 0 for a new run, which drops the rows that are there; after a resume rows of
  /// later steps are cut, for they will come again. run.json holds `facts`, in this order, behind
  /// its schema and first_step. The curves are drawn at most once in `draw_every_s`, and at the
  /// end. Throws Refused for a folder that cannot be made or written and for old rows that cannot
  /// be read, and std::logic_error for JsonText that is not JSON; problem() tells what else fails.
  RunLog(std::filesystem::path folder, std::uint64_t first_step, const RunFacts& facts,
         double draw_every_s = 5);
  /// finish()
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Adds a row: what the run knew after `step` steps, `epoch` epochs (fractions count) and
  /// `time_s` seconds. Names are such as "val/top1"; what is not printable() in them is escaped.
  /// Steps do not go back. Returns when the files have the row, but for the curves. A file that
  /// cannot be written is no error: it gets its row with the next one. Throws std::logic_error for
  /// a value named step, epoch or time_s.
  void add(std::uint64_t step, double epoch, double time_s, const NamedValues& values);
  /// Writes what is not written yet, and draws the curves.
  void finish();

  /// The first thing that went wrong, as a sentence for people, also where a later row put it
  /// right; "" for nothing.
  std::string problem() const { return problem_; }

 private:
  void write(bool is_end);
  void write_facts();
  void write_events();
  void draw(bool is_end);
  void keep_folder();
  void attempt(const std::function<void()>& part);
  void report_problem(const std::string& problem);

  std::filesystem::path folder_;
  std::uint64_t first_step_;
  double draw_every_s_;
  std::string facts_;
  bool has_facts_ = false;  ///< whether run.json holds them
  MetricsTable table_;
  std::size_t old_rows_;
  std::vector<double> wall_times_s_;  ///< of the rows behind the old ones, since 1970
  RowFile json_, csv_;
  std::optional<EventFile> events_;
  std::size_t event_rows_ = 0;  ///< rows behind the old ones that the event file holds
  std::optional<std::chrono::steady_clock::time_point> drawn_;
  std::string problem_;
  bool is_finished_ = false;
};

}  // namespace slipstream
