#pragma once

#include <string_view>
#include <vector>

#include "slipstream/transforms/op.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {

/// Helpers shared by the operations that pad. `op` is the operation's name in messages.

/// Throws Refused unless every side is 0 to 65,536 pixels.
void require_padding(std::string_view op, const Padding& padding);
/// Throws Refused unless `fill` holds one to four finite numbers.
void require_fill(std::string_view op, const std::vector<double>& fill);
/// Throws Refused unless `fill` is a value of the image or mask `in`.
void require_fill_for(std::string_view op, const std::vector<double>& fill, const FieldSpec& in);
/// Throws UnfitSample if an image of `shape` is too small for the padding, or too large with it.
void require_paddable(std::string_view op, const Padding& padding, PaddingMode mode,
                      const Shape& shape);

/// Writes the bytes of a fill value to `pixel`, which has `channels` values.
void store_fill(const std::vector<double>& fill, DType dtype, std::int64_t channels,
                std::byte* pixel);

/// Copies the pixels of `region`, which has the size of `out` and may extend beyond `in`. Pixels
/// outside of `in` are those of the padding.
void copy_padded(const ConstArray& in, const Region& region, PaddingMode mode,
                 const std::vector<double>& fill, const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
