#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "report/doctor_report.h"

namespace slipstream {

inline constexpr std::string_view kDoctorSchema = "slipstream.doctor";
inline constexpr int kDoctorVersion = 1;

/// Returns a readable name, such as "memory bandwidth".
std::string spoken(Bottleneck bottleneck);
/// Returns the readable names of the bottlenecks. The name of a part stays as it is.
std::vector<std::string> spoken_names(const Diagnosis& diagnosis);
/// Returns a headline such as "Verdict: transforms". Verdicts that name nothing to change are
/// described in words.
std::string spoken_verdict(const DoctorReport& report);
/// Returns what a verdict means, as a headline, or "" if its name says that already.
std::string_view verdict_headline(Bottleneck verdict);

/// Returns a sentence that names the slowest rank, or "" if there is only one process.
std::string ranks_sentence(const DoctorReport& report);
/// Returns the lines of doctor_summary(). The first one is the verdict.
std::vector<std::string> summary_lines(const DoctorReport& report);

/// Returns true if the value was measured, is a number, and its interval is not wider than itself.
/// Other values are not shown.
bool is_there(const Measured& measured);
bool is_there(const std::optional<Measured>& measured);

/// Formats a value with three significant digits, such as "1.63", or "-" if it is not finite.
std::string figure(double value);
/// Formats a value with its interval, such as "1.63 [1.55, 1.70]", or "-" if nothing was measured.
std::string figure(const Measured& measured);
std::string figure(const std::optional<Measured>& measured);
/// Formats a share as a percentage, such as "26 % [25 %, 27 %]".
std::string percent(const Measured& share);
std::string percent(double share);

/// Converts seconds to ms.
Measured in_ms(const Measured& seconds);
/// Returns 1 - share of the ceiling, clamped to 0 to 1.
Measured waiting_share(const Diagnosis& diagnosis);
/// Returns the number of cores that the step keeps busy at the rate without caches, or NaN if that
/// is unknown.
double cores_used(const CostRow& row, const DoctorReport& report);
bool is_ceiling(const Level& level);
/// Returns true if the level was measured, but no value of it is certain enough to be shown.
bool is_uncertain(const Level& level);
/// Returns a level's name, marked for the ceiling: "device batch (the ceiling)".
std::string level_label(const Level& level);
/// Returns remarks such as "memory-bound, 30 % of it one worker at a time", or "" if there are
/// none.
std::string remarks_on(const CostRow& row);
/// Formats a prediction, such as "at most 1.63 [1.55, 1.70] steps/s, 1.83 [1.74, 1.91] times as
/// fast".
std::string prediction(const Change& change);
/// Describes machine and settings, such as "NVIDIA H200, 16 cores; batch 256, 4 workers; 58 s of 60
/// s allowed".
std::string describe_setting(const DoctorReport& report);
/// Returns a sentence such as "To keep the device busy this input needs 11 cores; this process may
/// use 4.", or "" if that is unknown.
std::string cores_sentence(const DoctorReport& report);
/// Returns everything that makes the measurements less reliable, the most serious first.
std::vector<std::string> list_warnings(const DoctorReport& report);

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
/// Formats an option's value as the command line accepts it.
std::string option_text(const OptionValue& value);
/// Returns "The outcome is within the prediction's interval.", or by how much it is outside.
std::string outcome_sentence(const Outcome& outcome);

/// One measurement of a utilization.
struct Reading {
  std::string name;
  std::optional<double> share;
  std::string text;
  bool is_misleading = false;  ///< misleads
};
std::vector<Reading> collect_readings(const DoctorReport& report);

}  // namespace slipstream
