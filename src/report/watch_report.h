#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/files.h"
#include "report/progress_line.h"
#include "report/watch.h"

namespace slipstream {

/// Returns one JSON object without line ends, schema "slipstream.watch" version 1 (docs/watch.md).
/// Values that are unknown or not finite are null.
std::string watch_json(const WatchWindow& window);

/// Returns Prometheus' text format, as node_exporter's textfile collector reads it: counters of
/// `totals`, gauges of `window`, each with the label `run`. A null `window` means that the run has
/// ended and has no gauges.
std::string watch_prometheus(const WatchTotals& totals, const WatchWindow* window,
                             std::string_view run);

/// Watches a run: prints events above the progress line, and updates two files once per window: it
/// appends a line to one and replaces the other. After a file could not be written, it is not
/// written again. Not thread-safe.
class RunWatch {
 public:
  /// A path of "" means no file. The name of `prometheus` without its extension is the label `run`.
  /// Throws Refused for files that cannot be written, and if `prometheus` is a pipe or a device.
  /// `line` must outlive this object.
  RunWatch(const std::filesystem::path& json, const std::filesystem::path& prometheus,
           ProgressLine& line);
  /// Calls finish().
  ~RunWatch() { finish(); }
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  /// Starts watching. Before that, all other functions do nothing.
  void begin(const WatchOptions& options) { watch_.emplace(options); }
  void update(const Progress& progress);
  void finish();
  /// Returns one line on all steps, with its line end, or "" if nothing was watched.
  std::string summary() const;

 private:
  /// Writes the files. `window` is nullptr if the run has ended.
  void write(const WatchWindow* window);

  LineFile json_;
  std::filesystem::path prometheus_;
  std::string run_;
  ProgressLine& line_;
  std::optional<StarvationWatch> watch_;
  bool writes_json_ = true, writes_prometheus_;
};

}  // namespace slipstream
