#pragma once

#include <string>
#include <vector>

#include "report/doctor_report.h"

namespace slipstream {

/// Starved by transforms, on a GPU: everything is there.
DoctorReport starved_report();
/// Nothing to complain about.
DoctorReport full_speed_report();
/// On a CPU; one level failed, time ran out, the user ended it.
DoctorReport failed_level_report();
/// Nothing at all was measured.
DoctorReport empty_report();
/// `words` wherever a report takes words.
DoctorReport report_with_text(const std::string& words);
/// The starved report with `value` for every number that was measured.
DoctorReport report_with_numbers(double value);

/// What no name may do to a page or a terminal.
inline const std::string kHostile =
    "<script>alert(1)</script> & \"quoted\" 'it' \x1b[31m\x01 \xff ]]> <!-- </style>";

struct NamedReport {
  std::string name;
  DoctorReport report;
};
std::vector<NamedReport> all_doctor_reports();

}  // namespace slipstream
