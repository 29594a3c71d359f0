#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/environment.h"
#include "report/report.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// Result of one of several processes that train together. Each examines its own input.
struct RankResult {
  std::size_t rank = 0;
  std::string verdict;  ///< verdict_name()
  Measured ceiling;     ///< steps/s
  Measured rate;        ///< steps/s; n = 0: not measured
};

/// One examination, as `doctor --json` writes it.
struct DoctorReport {
  Environment environment;
  WorkloadInfo workload;
  Observations observed;
  Diagnosis diagnosis;
  /// Lanes of a run without caches. Its last_intervals contain a few steady steps.
  std::vector<LaneResult> lanes;
  std::optional<Outcome> outcome;  ///< set if changes were applied
  std::vector<RankResult> ranks;   ///< of all processes that train together; empty for one
  std::size_t rank = 0;            ///< of this process
  double seconds = 0;              ///< duration
  double budget_s = 0;
  bool interrupted = false;
};

/// Returns JSON, schema "slipstream.doctor" version 1 (docs/doctor-json.md). Numbers that are not
/// finite become null. Measurements of single samples are not written.
std::string doctor_report_json(const DoctorReport& report);
/// Returns at most three lines: the verdict, what to do first with its predicted gain, and the
/// distance from the limit. Names are passed through printable().
std::string doctor_summary(const DoctorReport& report);
/// Returns the process of `report.ranks` with the lowest rate, or nullptr if no rate was measured.
const RankResult* slowest_rank(const DoctorReport& report);
/// Returns aligned plain text for a console: the lines of doctor_summary(), then the reason, ranks,
/// warnings, changes, outcome, cache levels and other tables. Names are passed through printable().
std::string doctor_text(const DoctorReport& report);
/// Returns one self-contained HTML page, which is also well-formed XML: it loads nothing, runs no
/// script, and has a light and a dark color scheme.
std::string doctor_html(const DoctorReport& report);

/// One measurement in two reports; n is 0 in the report that lacks it.
struct BaselineRow {
  std::string name;  ///< "ceiling", "rate", "LEVEL", "LEVEL, loader alone", "STEP, ms a sample"
  Measured before;
  Measured now;
  /// True if the intervals do not touch and the value is worse by more than 2 %. False if a value
  /// or a bound is missing, and for a host step that takes less than 5 % of a sample's time.
  bool is_worse = false;
};
struct BaselineComparison {
  std::vector<BaselineRow> rows;
  /// Differences of machine, options and plan, which may explain the rows.
  std::vector<std::string> differences;
};
/// Compares `report` with an earlier output of doctor_report_json(). Throws Refused for any other
/// text, for another workload and for another batch size.
BaselineComparison against_baseline(const DoctorReport& report, std::string_view baseline);
bool is_worse(const BaselineComparison& comparison);  ///< true if any row is worse
std::string baseline_text(const BaselineComparison& comparison);

}  // namespace slipstream
