#pragma once

#include <string>

#include "slipstream/diagnosis.h"

namespace slipstream {

/// "26 %": a share without decimals.
std::string whole_percent(double share);

/// The verdict as a sentence.
std::string reason_for(const Diagnosis& diagnosis);

}  // namespace slipstream
