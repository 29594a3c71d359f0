#pragma once

#include <optional>
#include <span>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// Indices into a chain of transforms: a crop, and the transform before which it can be done.
struct LateCrop {
  std::size_t crop;
  std::size_t moved_before;
};

/// The first crop that leaves at most half of an image's bytes and directly follows transforms that
/// change each pixel by itself, so that doing it before these changes no image. A crop cannot be
/// moved across a resize, a rotation, a blur or what depends on the whole image. `chain`: no value
/// for transforms that are not known. `bytes`: of what the first transform is given, then of what
/// each of them makes; the rest of the chain is ignored where there are fewer.
std::optional<LateCrop> find_late_crop(std::span<const std::optional<AnyOp>> chain,
                                       std::span<const double> bytes);

}  // namespace slipstream
