#pragma once

#include <optional>
#include <span>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// Indices into a chain of transforms: a crop, and the transform that it can be moved before.
struct LateCrop {
  std::size_t crop;
  std::size_t moved_before;
};

/// Finds the first crop that keeps at most half of an image's bytes and directly follows transforms
/// that change each pixel independently. Such a crop can run before these transforms without
/// changing any image. A crop cannot be moved before a resize, a rotation, a blur, or a transform
/// that depends on the whole image. `chain`: the transforms, empty for unknown ones. `bytes`: size
/// of the first transform's input, then of each transform's result. Transforms without a size are
/// ignored.
std::optional<LateCrop> find_late_crop(std::span<const std::optional<AnyOp>> chain,
                                       std::span<const double> bytes);

}  // namespace slipstream
