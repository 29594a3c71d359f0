#pragma once

#include <string>

#include "slipstream/diagnosis/diagnosis.h"

namespace slipstream {

struct Contradiction;

/// Of the ceiling: below it input is worth looking at.
inline constexpr double kStarved = 0.95;

/// "26 %": a share without decimals.
std::string whole_percent(double share);

/// The verdict as a sentence.
std::string reason_for(const Diagnosis& diagnosis);
/// That the machine's speed changed, and what shows it.
std::string reason_for(const Contradiction& found);

}  // namespace slipstream
