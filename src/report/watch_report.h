#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/files.h"
#include "report/watch.h"

namespace slipstream {

/// One JSON object without line ends, schema "slipstream.watch" version 1 (docs/watch.md). What is
/// not known or not finite is null.
std::string watch_json(const WatchWindow& window);

/// Prometheus' text format, as node_exporter's textfile collector reads it: counters of `totals`,
/// gauges of `window`, each with the label `run`. nullptr, for a run that is over: no gauges.
std::string watch_prometheus(const WatchTotals& totals, const WatchWindow* window,
                             std::string_view run);

/// The files that a watch writes once a window: one gets a line, the other is replaced as a whole.
class WatchFiles {
 public:
  /// "" is not a file. The name of `prometheus` without its extension is the label `run`. Throws
  /// Refused for what cannot be written, and for `prometheus` where that is not a file but a pipe
  /// or a device.
  WatchFiles(const std::filesystem::path& json, const std::filesystem::path& prometheus);

  /// A file that cannot be written is given up. Returns what to tell about that, once; "" for
  /// nothing.
  std::string write(const WatchWindow& window, const WatchTotals& totals);
  /// The run is over. Returns as write() does.
  std::string end(const WatchTotals& totals);

 private:
  /// `window`: nothing where the run is over.
  std::string write_prometheus(const WatchTotals& totals, const WatchWindow* window);
  static std::string attempt(bool& writes, const std::function<void()>& write);

  LineFile json_;
  std::filesystem::path prometheus_;  ///< links followed: it is replaced by renaming
  std::string run_;
  bool writes_json_, writes_prometheus_;
};

}  // namespace slipstream
