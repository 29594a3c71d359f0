#pragma once

#include "ops/color_math.h"
#include "slipstream/ops/color.h"
#include "slipstream/ops/transforms.h"

namespace slipstream {

/// Matrix and offset, rounded to float32.
ColorMatrix float32_of(const ConvertColor& op);
/// Mean and std, rounded to float32.
ChannelStatistics float32_of(const Normalize& op);

}  // namespace slipstream
