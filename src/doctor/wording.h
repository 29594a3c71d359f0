#pragma once

#include <string>

#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

struct Contradiction;

/// Share of the ceiling below which the device counts as waiting for input.
inline constexpr double kStarved = 0.95;
/// The limit of kStarved as the share of time that the device waits.
inline constexpr double kMostWaiting = 1 - kStarved;

/// "26 %": a share without decimals.
std::string whole_percent(double share);

/// "the device waits for input 26 % of the time", where `share` is "26 %".
std::string device_waits(const std::string& share);

/// Returns the reason for the verdict, as a sentence. `observed`: what was diagnosed.
std::string reason_for(const Diagnosis& diagnosis, const Observations& observed);
/// Returns the option that sets the budget, in parentheses.
std::string budget_option(const Observations& observed);
/// Returns a sentence: the machine's speed changed, with the two levels that show it.
std::string reason_for(const Contradiction& found);

}  // namespace slipstream
