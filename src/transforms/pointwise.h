#pragma once

#include "slipstream/transforms/color.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/color_math.h"

namespace slipstream {

/// Returns matrix and offset, rounded to float32.
ColorMatrix to_float32(const ConvertColor& op);
/// Returns mean and std, rounded to float32.
ChannelStatistics to_float32(const Normalize& op);

}  // namespace slipstream
