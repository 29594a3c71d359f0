#pragma once

#include <string>
#include <vector>

#include "report/doctor_report.h"

namespace slipstream {

/// A loop on a GPU for which transforms are the bottleneck; every part of the report is present.
DoctorReport starved_report();
/// A loop without a bottleneck.
DoctorReport full_speed_report();
/// A loop on a CPU. One level failed, the time was used up, and the user ended the examination.
DoctorReport failed_level_report();
/// A report without any measurement.
DoctorReport empty_report();
/// A report with `words` in every text.
DoctorReport report_with_text(const std::string& words);
/// The starved report with `value` in place of every measured number.
DoctorReport report_with_numbers(double value);

/// A name that tries to inject HTML into a page or control sequences into a terminal.
inline const std::string kHostile =
    "<script>alert(1)</script> & \"quoted\" 'it' \x1b[31m\x01 \xff ]]> <!-- </style>";

struct NamedReport {
  std::string name;
  DoctorReport report;
};
std::vector<NamedReport> all_doctor_reports();

}  // namespace slipstream
