#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/diagnosis.h"
#include "slipstream/environment.h"
#include "slipstream/report.h"

namespace slipstream {

/// What a changed plan was predicted to give, and gave.
struct Outcome {
  Plan plan;
  std::vector<std::string> changes;  ///< Change::what of those applied
  Measured before;                   ///< steps/s
  Measured predicted;                ///< steps/s
  Measured measured;                 ///< steps/s
};

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

/// JSON, schema "slipstream.doctor" version 1 (docs/doctor.md).
std::string doctor_report_json(const DoctorReport& report);
/// The ladder, the verdict and the changes, aligned plain text for a console.
std::string doctor_text(const DoctorReport& report);
/// One self-contained HTML page: loads nothing from anywhere.
std::string doctor_html(const DoctorReport& report);

/// One figure of two reports.
struct BaselineRow {
  std::string name;  ///< "nothing cached", "ceiling", a rung, a host step ("ms a sample")
  Measured before;
  Measured now;
  bool is_worse = false;  ///< beyond what the intervals allow
};
/// `report` against what doctor_report_json wrote before. Throws Error for anything else, and for
/// another workload.
std::vector<BaselineRow> against_baseline(const DoctorReport& report, std::string_view baseline);
std::string baseline_text(const std::vector<BaselineRow>& rows);

}  // namespace slipstream
