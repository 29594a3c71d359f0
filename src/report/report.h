#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/environment.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// Returns a measurement without a known interval: low and high are NaN (null in JSON), n is 1.
Measured measured_once(double value, std::string unit);

/// The workload and its options, in the order in which they are shown.
struct WorkloadInfo {
  std::string name;
  std::vector<std::pair<std::string, std::variant<bool, std::int64_t, double, std::string>>>
      options;
};

/// Utilization of the GPU. Missing values could not be read, and `note` says why.
struct GpuUseInfo {
  std::optional<Measured> sm_activity;
  std::optional<Measured> dram_use;
  std::optional<Measured> gpu_utilization;
  std::string note;
};

/// Scores of an evaluation after some steps.
struct ScoreRow {
  std::uint64_t step = 0;
  double epoch = 0;
  std::vector<std::pair<std::string, double>> scores;
};

/// One training run, as `train --json` writes it.
struct RunReport {
  Environment environment;
  WorkloadInfo workload;
  RunResult result;
  std::optional<GpuUseInfo> gpu;              ///< no value on a CPU
  std::optional<AutoChoice> auto_choice;      ///< set with --plan auto
  std::vector<std::string> class_names = {};  ///< from Dataset::class_names()
  std::vector<ScoreRow> validation = {};      ///< after each epoch
};

/// Returns JSON, schema "slipstream.run" version 1 (docs/run-report.md). Numbers that are not
/// finite become null.
std::string run_report_json(const RunReport& report);

/// A line such as "Loading overlapped training: 1.71x (limit 1.80x)", or for a ForkJoin the streams
/// that were chosen and the reason. REQUIRES: the gain of loading was measured
std::string gain_line(const Gain& gain);

/// Rates over fewer steps than this depend more on chance than on a plan, so they are not shown.
inline constexpr std::size_t kFewestStepsForARate = 8;
/// Returns `rate`, or n = 0 without values if it was measured over fewer steps than that.
Measured reportable_rate(const Measured& rate);

/// First and last losses of a run: the means over its first and last tenth of steps, each at least
/// one step. NaN and 0 steps if there are no losses.
struct LossTrend {
  double first;
  double last;
  std::size_t steps;  ///< steps in each mean
};
LossTrend loss_trend(std::span<const float> losses);
/// Formats the trend, such as "loss 2.301 -> 0.0984 (means of the first and last 20 steps)", or ""
/// if there are no losses.
std::string loss_text(std::span<const float> losses);

/// Returns "warning: TEXT" for each of the environment's warnings, one per line.
std::string warning_lines(const Environment& environment);

/// The error of a row that was not measured because the benchmark was interrupted.
inline constexpr const char* kInterruptedRow = "interrupted";

/// One measurement of a benchmark. Values that do not apply, or could not be measured, are missing.
struct BenchRow {
  std::size_t batch_size = 0;
  std::string plan;                       ///< "serial", "pipelined", "alone:LANE"
  std::string transforms_device = "cpu";  ///< where transforms were done: "cpu", "cuda"
  std::string input;                      ///< "loader", "host", "device"
  std::optional<Measured> steps_per_second;
  /// Steps/s divided by the steps/s of the plan "serial" with the same transforms_device. 1 means
  /// no gain.
  std::optional<Measured> gain;
  /// If transforms_device is "cuda": steps/s divided by the steps/s of the same plan with "cpu".
  std::optional<Measured> offloading_gain;
  /// Steps/s divided by the steps/s of the slowest lane when it runs alone.
  std::optional<Measured> share_of_slowest_lane;
  std::optional<Measured> overlap_efficiency;
  std::string error;  ///< why the row could not be measured; "" otherwise
};

/// Settings that all measurements of a benchmark share.
struct BenchSettings {
  std::string precision;
  bool deterministic = false;
  unsigned num_workers = 1;
  std::uint64_t steps = 0;  ///< maximum for each measurement
  double seconds = 0;       ///< maximum for each measurement
  unsigned repeats = 1;     ///< rounds over all measurements
};

struct BenchReport {
  Environment environment;
  WorkloadInfo workload;
  BenchSettings settings;
  std::vector<BenchRow> rows;
};

/// Returns JSON, schema "slipstream.bench" version 1 (docs/run-report.md).
std::string bench_report_json(const BenchReport& report);
/// Returns aligned plain text for a console, one line per row, then what failed and why, and the
/// environment's warnings.
std::string bench_table(const BenchReport& report);
/// Returns a self-contained SVG with a light and a dark color scheme: steps/s as grouped bars and
/// the gains as lines, by batch size, with 95 % intervals, and the environment's warnings below. Of
/// the measurements of single lanes only the slowest is drawn, with the last row's
/// `transforms_device`.
std::string bench_svg(const BenchReport& report);

/// One run of a comparison.
struct ComparisonRow {
  std::string name;
  Plan plan;
  bool is_auto = false;  ///< true if --plan auto chose `plan`
  /// Properties that must be equal for the runs to do the same work: workload, its options, steps.
  std::vector<std::pair<std::string, std::string>> work;
  Measured steps_per_second;
  double input_wait_share = 0;
  double first_loss = 0;  ///< as in LossTrend
  double final_loss = 0;
  std::uint64_t digest = 0;
  std::vector<std::string> warnings = {};  ///< warnings of the environment
};

ComparisonRow comparison_row(std::string name, const RunResult& result);
/// Reads a row from the output of run_report_json(). Throws Error for anything else.
ComparisonRow comparison_row(std::string name, std::string_view run_report_json);
/// Returns aligned plain text, one line per row. Gain and digest are compared with the first row. A
/// gain whose rates' intervals overlap is marked as within the noise; digests are compared only
/// between plans of equal numerics. Then follow a line for each run that did other work than the
/// first, with the difference, and one for each run with warnings.
std::string comparison_table(const std::vector<ComparisonRow>& rows);

}  // namespace slipstream
