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

/// A reading without a known interval: low and high are NaN (null in JSON), n is 1.
Measured measured_once(double value, std::string unit);

/// The workload and the options it was run with, in the order they shall be shown.
struct WorkloadInfo {
  std::string name;
  std::vector<std::pair<std::string, std::variant<bool, std::int64_t, double, std::string>>>
      options;
};

/// How busy the GPU was; absent figures could not be read, and `note` says why.
struct GpuUseInfo {
  std::optional<Measured> sm_activity;
  std::optional<Measured> dram_use;
  std::optional<Measured> gpu_utilization;
  std::string note;
};

/// What an evaluation after some steps found.
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
  std::optional<GpuUseInfo> gpu;              ///< absent on a CPU
  std::optional<AutoChoice> auto_choice;      ///< of --plan auto
  std::vector<std::string> class_names = {};  ///< of Dataset::class_names()
  std::vector<ScoreRow> validation = {};      ///< after each epoch
};

/// JSON, schema "slipstream.run" version 1 (docs/run-report.md). Numbers that are not finite become
/// null.
std::string run_report_json(const RunReport& report);

/// A line such as "Loading overlapped training: 1.71x (limit 1.80x)", or for a ForkJoin the streams
/// that were chosen and the reason. REQUIRES: the gain of loading was measured
std::string gain_line(const Gain& gain);

/// Rates over fewer steps than this say more about chance than about a plan: they are not shown.
inline constexpr std::size_t kFewestStepsForARate = 8;
/// `rate`, or n = 0 and no values where it was measured over fewer steps.
Measured reportable_rate(const Measured& rate);

/// Where the losses of a run began and ended: the means of its first and last tenth of steps, each
/// at least one step. NaN and 0 steps for no losses.
struct LossTrend {
  double first;
  double last;
  std::size_t steps;  ///< in each mean
};
LossTrend loss_trend(std::span<const float> losses);
/// "loss 2.301 -> 0.0984 (means of the first and last 20 steps)"; "" for no losses.
std::string loss_text(std::span<const float> losses);

/// "warning: TEXT" for each of the environment's, a line each.
std::string warning_lines(const Environment& environment);

/// The error of a row that there was no time for.
inline constexpr const char* kInterruptedRow = "interrupted";

/// One measurement of a benchmark. What does not apply, or could not be measured, is absent.
struct BenchRow {
  std::size_t batch_size = 0;
  std::string plan;                       ///< "serial", "pipelined", "alone:LANE"
  std::string transforms_device = "cpu";  ///< where transforms were done: "cpu", "cuda"
  std::string input;                      ///< "loader", "host", "device"
  std::optional<Measured> steps_per_second;
  /// Steps/s over those of serial with transforms on the same device: 1 is no gain.
  std::optional<Measured> gain;
  /// Of "cuda": steps/s over those of the same plan with "cpu".
  std::optional<Measured> offloading_gain;
  std::optional<Measured> share_of_slowest_lane;  ///< steps/s over the slowest lane's alone
  std::optional<Measured> overlap_efficiency;
  std::string error;  ///< why the row could not be measured; "" otherwise
};

/// What all measurements of a benchmark have in common.
struct BenchSettings {
  std::string precision;
  bool deterministic = false;
  unsigned num_workers = 1;
  std::uint64_t steps = 0;  ///< of each measurement, at most
  double seconds = 0;       ///< of each measurement, at most
  unsigned repeats = 1;     ///< rounds in which all took turns
};

struct BenchReport {
  Environment environment;
  WorkloadInfo workload;
  BenchSettings settings;
  std::vector<BenchRow> rows;
};

/// JSON, schema "slipstream.bench" version 1 (docs/run-report.md).
std::string bench_report_json(const BenchReport& report);
/// Aligned plain text, one line a row, for a console; then what failed and why, and the
/// environment's warnings.
std::string bench_table(const BenchReport& report);
/// A self-contained SVG, readable on light and dark pages: steps/s as grouped bars and the gains as
/// lines, by batch size, with 95 % intervals, and the environment's warnings below. Of the lanes
/// alone the slowest is drawn, of the last row's `transforms_device`.
std::string bench_svg(const BenchReport& report);

/// One run of a comparison.
struct ComparisonRow {
  std::string name;
  Plan plan;
  bool is_auto = false;  ///< whether `plan` is what --plan auto kept
  /// What must be equal for the runs to do the same work: workload, its options, steps.
  std::vector<std::pair<std::string, std::string>> work;
  Measured steps_per_second;
  double input_wait_share = 0;
  double first_loss = 0;  ///< as LossTrend
  double final_loss = 0;
  std::uint64_t digest = 0;
  std::vector<std::string> warnings = {};  ///< of the environment
};

ComparisonRow comparison_row(std::string name, const RunResult& result);
/// From what run_report_json wrote. Throws Error for anything else.
ComparisonRow comparison_row(std::string name, std::string_view run_report_json);
/// Aligned plain text, one line a row. Gain and digest are held against the first row; a gain whose
/// rates' intervals overlap is said to be within the noise; digests are compared only between plans
/// of equal numerics. Then a line for each run that did other work than the first, with what
/// differs, and one for each whose environment warned.
std::string comparison_table(const std::vector<ComparisonRow>& rows);

}  // namespace slipstream
