#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "slipstream/core/array.h"

namespace slipstream::jpeg {

/// Larger images are decoded on the CPU: a file of a few bytes can claim any size, and device
/// memory is allocated for a whole batch.
inline constexpr std::int64_t kMostEnginePixels = 8 << 20;

/// Returns height and width of a file that a GPU's JPEG engines can decode (JpegSlot lists the
/// conditions), or no value for all other files, including broken ones.
std::optional<Shape> shape_for_engines(std::span<const std::byte> file);

}  // namespace slipstream::jpeg
