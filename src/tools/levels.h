#pragma once

#include <array>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/ops/op.h"

namespace slipstream {

/// How float images become levels, 0 to 255, so that they can be looked at.
struct ShownLevels {
  /// value * factor + offset, by channel.
  struct Undo {
    std::array<double, 4> factor = {1, 1, 1, 1};
    std::array<double, 4> offset = {};
  };

  std::vector<Undo> undone = {};  ///< in this order
  double white = 1;               ///< what becomes 255 after that
};

/// For what `chain` makes of `image`: each Normalize and Divide is undone, last first; white is 255
/// where ConvertColor or Divide took uint8, else 1. REQUIRES: operations that take such images
ShownLevels levels_after(const std::vector<NamedOp>& chain, FieldSpec image);

/// `image` (uint8 or float32, height x width x channels) as uint8 of three channels: of one or two
/// the first in gray, of more the first three. Floats are rounded and clamped; what is not a number
/// is black.
HostArray rgb_of(const ConstArray& image, const ShownLevels& levels);

}  // namespace slipstream
