#pragma once

#include "slipstream/transforms/color.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/color_math.h"

namespace slipstream {

/// Matrix and offset, rounded to float32.
ColorMatrix float32_of(const ConvertColor& op);
/// Mean and std, rounded to float32.
ChannelStatistics float32_of(const Normalize& op);

}  // namespace slipstream
