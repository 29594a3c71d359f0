#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/report.h"
#include "slipstream/engine/pipeline.h"
#include "training/run_logging.h"
#include "training/schedule_settings.h"

namespace CLI {
class App;
}

namespace slipstream {

/// The options of the training stage, for verbs that train or measure training.
struct TrainingFlags {
  std::optional<unsigned> accumulate;
  std::optional<double> clip_grad, ema_decay;
  std::optional<std::string> on_nan;

  /// This must outlive the parser.
  void add_to(CLI::App& verb);
  /// Returns the pipeline with the given options applied, and adds them to `info`. Throws Refused
  /// for a pipeline with a custom training step.
  Pipeline applied(Pipeline pipeline, WorkloadInfo& info) const;
};

/// The options of the learning rate schedule.
struct ScheduleFlags : ScheduleSettings {
  /// This must outlive the parser.
  void add_to(CLI::App& verb);
};

/// The options --log-dir and --log-every.
struct LogFlags : RunLogOptions {
  /// This must outlive the parser.
  void add_to(CLI::App& verb);
};

/// The options of evaluation between epochs.
struct ValidationFlags {
  std::string val;
  std::optional<std::string> keep_best;
  std::optional<std::uint64_t> early_stop;

  /// This must outlive the parser.
  void add_to(CLI::App& verb);
  /// Throws Refused for options that have no effect without another.
  void check() const;
};

/// The options --watch, --watch-json and --watch-prom (docs/watch.md).
struct WatchFlags {
  bool watch = false;
  std::string json, prometheus;

  /// This must outlive the parser.
  void add_to(CLI::App& verb);
  bool is_on() const { return watch || !json.empty() || !prometheus.empty(); }
};

}  // namespace slipstream
