#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "slipstream/core/array.h"

namespace slipstream::jpeg {

/// Larger images stay on the CPU: a few bytes can claim any size, and the device's memory is taken
/// for a whole batch.
inline constexpr std::int64_t kMostEnginePixels = 8 << 20;

/// Height and width of a file that a GPU's JPEG engines are given (JpegSlot says which are);
/// nothing for all others, broken ones among them.
std::optional<Shape> shape_for_engines(std::span<const std::byte> file);

}  // namespace slipstream::jpeg
