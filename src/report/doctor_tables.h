#pragma once

#include <string>

#include "report/doctor_report.h"

namespace slipstream {

/// Markup of the page's tables; "" where there is nothing to show.
std::string costs_table(const DoctorReport& report);
std::string device_table(const DoctorReport& report);
std::string environment_list(const DoctorReport& report);

/// "<b>1.63</b> [1.55, 1.70]" as markup.
std::string figure_markup(const Measured& measured);
std::string percent_markup(const Measured& share);

}  // namespace slipstream
