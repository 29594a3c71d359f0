#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/files.h"
#include "report/progress_line.h"
#include "report/watch.h"

namespace slipstream {

/// One JSON object without line ends, schema "slipstream.watch" version 1 (docs/watch.md). What is
/// not known or not finite is null.
std::string watch_json(const WatchWindow& window);

/// Prometheus' text format, as node_exporter's textfile collector reads it: counters of `totals`,
/// gauges of `window`, each with the label `run`. There are no gauges for nullptr, a run that has
/// ended.
std::string watch_prometheus(const WatchTotals& totals, const WatchWindow* window,
                             std::string_view run);

/// Watches a run: prints events above the progress line, and writes two files once in each window:
/// one gets a line, the other is replaced. A file that cannot be written is not written again.
class RunWatch {
 public:
  /// "" is no file. The name of `prometheus` without its extension is the label `run`. Throws
  /// Refused for what cannot be written, and for `prometheus` where that is a pipe or a device.
  /// `line` must outlive this.
  RunWatch(const std::filesystem::path& json, const std::filesystem::path& prometheus,
           ProgressLine& line);
  /// finish()
  ~RunWatch() { finish(); }
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  /// Begins to watch; what is called without it does nothing.
  void begin(const WatchOptions& options) { watch_.emplace(options); }
  void update(const Progress& progress);
  void finish();
  /// A line about all steps with its end; "" where nothing was watched.
  std::string summary() const;

 private:
  /// `window`: nullptr where the run has ended.
  void write(const WatchWindow* window);

  LineFile json_;
  std::filesystem::path prometheus_;
  std::string run_;
  ProgressLine& line_;
  std::optional<StarvationWatch> watch_;
  bool writes_json_ = true, writes_prometheus_;
};

}  // namespace slipstream
