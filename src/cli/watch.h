#pragma once

#include <string>

#include "report/progress_line.h"
#include "report/watch_report.h"

namespace CLI {
class App;
}

namespace slipstream {

/// The options --watch, --watch-json and --watch-prom.
struct WatchVerb {
  bool watch = false;
  std::string json, prometheus;

  void add_to(CLI::App& verb);
  bool is_on() const { return watch || !json.empty() || !prometheus.empty(); }
};

/// Watches a run, tells on standard error what happens, and writes the files.
class RunWatch {
 public:
  /// `line` is cleared before anything is told. It and `files` must outlive this.
  RunWatch(const WatchOptions& options, WatchFiles& files, ProgressLine& line);
  /// finish()
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  void update(const Progress& progress);
  void finish();
  /// One line about the whole run.
  std::string summary() const;

 private:
  void take(const WatchWindow* window);
  void tell(const std::string& message);

  StarvationWatch watch_;
  WatchFiles& files_;
  ProgressLine& line_;
};

}  // namespace slipstream
