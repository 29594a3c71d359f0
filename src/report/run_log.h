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

/// A text file with a header and a line for each row, which grows by appending.
class RowFile {
 public:
  explicit RowFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// Updates the file to the header and the first `rows` lines: appends missing lines, or rewrites
  /// the whole file the first time, for another header, and if it was removed. Throws Error with
  /// the path and the reason; the next call then writes the missing lines.
  void write(const std::string& head, std::size_t rows,
             const std::function<std::string(std::size_t row)>& line);

 private:
  std::filesystem::path path_;
  std::optional<std::string> head_;  ///< header of the file; no value before it is written
  std::size_t rows_ = 0;             ///< number of rows in the file
};

/// Writes the metrics of a training run into a folder: run.json, metrics.jsonl, metrics.csv, an
/// event file for TensorBoard and curves.svg (docs/run-folder.md). All rows also stay in memory.
/// Nothing is synced: a power failure may lose the last rows, but killing the process loses none.
/// Only one run may write to a folder at a time. Not thread-safe.
class RunLog {
 public:
  /// Creates `folder` if it is missing, and all files in it. `first_step` is the run's position at
  /// its beginning. 0 means a new run, which discards existing rows. After a resume, rows of later
  /// steps are removed, because they will be written again. run.json holds `facts`, in this order,
  /// after its schema and first_step. The curves are drawn at most once per `draw_every_s`, and at
  /// the end. Throws Refused for a folder that cannot be created or written and for old rows that
  /// cannot be read, and std::logic_error for JsonText that is not JSON. Other failures are
  /// reported by problem().
  RunLog(std::filesystem::path folder, std::uint64_t first_step, const RunFacts& facts,
         double draw_every_s = 5);
  /// Calls finish().
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Adds a row with the values after `step` steps, `epoch` epochs (with fraction) and `time_s`
  /// seconds. Names are such as "val/top1"; they are passed through printable(). Steps do not go
  /// back. When this returns, all files except the curves hold the row. A file that cannot be
  /// written is not an error: it gets the row together with the next one. Throws std::logic_error
  /// for a value named step, epoch or time_s.
  void add(std::uint64_t step, double epoch, double time_s, const NamedValues& values);
  /// Writes everything that is not written yet, and draws the curves.
  void finish();

  /// Returns the first problem as a sentence for users, even if a later row succeeded, or "" if
  /// there was none.
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
  bool has_facts_ = false;  ///< true if run.json holds facts_
  MetricsTable table_;
  std::size_t old_rows_;
  std::vector<double> wall_times_s_;  ///< times of the rows after the old ones, since 1970
  RowFile json_, csv_;
  std::optional<EventFile> events_;
  std::size_t event_rows_ = 0;  ///< number of rows after the old ones in the event file
  std::optional<std::chrono::steady_clock::time_point> drawn_;
  std::string problem_;
  bool is_finished_ = false;
};

}  // namespace slipstream
