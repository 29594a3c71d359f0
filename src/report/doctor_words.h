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

/// The name in words, such as "memory bandwidth".
std::string spoken(Bottleneck bottleneck);
/// "Verdict: transforms": its name; of those that name nothing to change, in words.
std::string spoken_verdict(const DoctorReport& report);
/// What a verdict means, as a headline; "" where its name says that already.
std::string_view verdict_headline(Bottleneck verdict);

/// Whether the figure was observed and is a number.
bool is_there(const Measured& measured);
bool is_there(const std::optional<Measured>& measured);

/// "1.63": three significant digits; "-" unless finite.
std::string figure(double value);
/// "1.63 [1.55, 1.70]"; "-" where nothing was observed.
std::string figure(const Measured& measured);
std::string figure(const std::optional<Measured>& measured);
/// "26 % [25 %, 27 %]".
std::string percent(const Measured& share);
std::string percent(double share);

/// Seconds as ms.
Measured in_ms(const Measured& seconds);
/// 1 - share of the ceiling, within 0 and 1.
Measured waiting_share(const Diagnosis& diagnosis);
/// Cores that the step keeps busy at the rate of nothing cached; NaN where that is not known.
double cores_used(const CostRow& row, const DoctorReport& report);
bool is_ceiling(const Level& level);
/// "device batch (the ceiling)": its name, and for the ceiling that it is that.
std::string level_label(const Level& level);
/// "memory-bound, 30 % of it one worker at a time"; "" where there is nothing to say.
std::string remarks_on(const CostRow& row);
/// "at most 1.63 [1.55, 1.70] steps/s, 1.83 [1.74, 1.91] times as fast".
std::string prediction(const Change& change);
/// "NVIDIA H200, 16 cores; batch 256, 4 workers; 58 s of 60 s allowed".
std::string describe_setting(const DoctorReport& report);
/// "To keep the device busy this input needs 11 cores; this process may use 4."; "" if not known.
std::string cores_sentence(const DoctorReport& report);
/// All that makes the figures less sure, the gravest first.
std::vector<std::string> list_warnings(const DoctorReport& report);

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
/// As the command line takes it.
std::string option_text(const OptionValue& value);
/// "The outcome is within the prediction's interval.", or by how much it is not.
std::string outcome_sentence(const Outcome& outcome);

/// One reading of how busy something was.
struct Reading {
  std::string name;
  std::optional<double> share;
  std::string text;
  bool is_misleading = false;  ///< misleads
};
std::vector<Reading> collect_readings(const DoctorReport& report);

}  // namespace slipstream
