#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/environment.h"
#include "report/report.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// One examination, as `doctor --json` writes it.
struct DoctorReport {
  Environment environment;
  WorkloadInfo workload;
  Observations observed;
  Diagnosis diagnosis;
  std::vector<LaneResult> lanes;   ///< of nothing cached: a few steady steps in last_intervals
  std::optional<Outcome> outcome;  ///< where changes were applied
  double seconds = 0;              ///< that it took
  double budget_s = 0;
  bool interrupted = false;
};

/// JSON, schema "slipstream.doctor" version 1 (docs/doctor.md). Numbers that are not finite become
/// null; what was measured of single samples is not written.
std::string doctor_report_json(const DoctorReport& report);
/// For a console: the ladder, the verdict, warnings, changes, outcome and tables, as aligned plain
/// text. Names as printable() gives them.
std::string doctor_text(const DoctorReport& report);
/// One self-contained HTML page, which is well-formed XML too: loads nothing from anywhere, runs no
/// script, is light or dark as its reader likes it.
std::string doctor_html(const DoctorReport& report);

/// One figure of two reports; n is 0 in the one that lacks it.
struct BaselineRow {
  std::string name;  ///< "ceiling", "rate", "LEVEL", "LEVEL, loader alone", "STEP, ms a sample"
  Measured before;
  Measured now;
  /// The intervals do not touch and the value is worse by more than 2 %. Never where a figure or a
  /// bound is missing, nor for a host step that takes less than 5 % of a sample's time.
  bool is_worse = false;
};
struct BaselineComparison {
  std::vector<BaselineRow> rows;
  /// Of machine, options and plan, which may explain the rows.
  std::vector<std::string> differences;
};
/// `report` against what doctor_report_json wrote before. Throws Refused for anything else, for
/// another workload and for another batch size, which is known before anything is measured.
BaselineComparison against_baseline(const DoctorReport& report, std::string_view baseline);
bool is_worse(const BaselineComparison& comparison);  ///< any row
std::string baseline_text(const BaselineComparison& comparison);

}  // namespace slipstream
