#pragma once

#include <string>

#include "slipstream/diagnosis.h"

namespace slipstream {

/// The verdict as a sentence.
std::string reason_for(const Diagnosis& diagnosis);

}  // namespace slipstream
