#pragma once

#include <string_view>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Returns an augmentation of an image of `shape`.
DrawnAugmentations::Step make_augmentation(Augmentation kind, float magnitude, const Shape& shape);
/// Applies the augmentations in order. `op` is the operation's name in messages. Throws UnfitSample
/// if `in` has another size than the image that they were generated for.
void apply_augmentations(std::string_view op, const DrawnAugmentations& drawn,
                         Interpolation interpolation, double fill, const ConstArray& in,
                         const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
