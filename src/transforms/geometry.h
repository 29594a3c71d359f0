#pragma once

#include <string_view>
#include <vector>

#include "slipstream/core/region.h"
#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// What the operations that move pixels have in common; `op` is the operation's name in messages.

/// Throws Refused unless both are 1 to 65,536.
void require_sides(std::string_view op, const Size& size);
/// Throws Refused unless it is 0 to 1.
void require_probability(std::string_view op, double p);

/// Throws Refused unless it is a number.
void require_number(std::string_view op, const char* what, double value);
/// What fills pixels: no zero is negative, for what is computed from several of it is not either.
inline float filling(double value) { return static_cast<float>(value) + 0.0F; }
/// Throws Refused unless an image is uint8 or float32 of 1 to 4 channels.
void require_channels(std::string_view op, const FieldSpec& in);

/// `in` as an image or mask of height x width. Throws Refused where it is neither.
FieldSpec resided(std::string_view op, const FieldSpec& in, std::int64_t height,
                  std::int64_t width);
/// As resided(), and throws Refused as require_channels() does.
FieldSpec resampled(std::string_view op, const FieldSpec& in, std::int64_t height,
                    std::int64_t width);
/// Throws Refused where `in` is fixed in size and smaller than height x width.
void require_room(std::string_view op, const FieldSpec& in, std::int64_t height,
                  std::int64_t width);

/// The field whose shape its parameters are drawn for, as AnyOp::apply() finds it for a sample: the
/// first image that it touches, else the first field but boxes; nullptr where it touches none.
const FieldSpec* drawn_for(const AnyOp& op, const std::vector<FieldSpec>& fields);
/// That an operation on samples would change none of these fields; "": it changes some.
std::string problem_of_fields(const AnyOp& op, const std::vector<FieldSpec>& fields);
/// Throws Error unless `in` has the size that `drawn` was drawn for.
void require_drawn_for(std::string_view op, const DrawnCrop& drawn, const ConstArray& in);

/// Bytes of one pixel of an image or mask.
std::size_t pixel_bytes(const ConstArray& array);
/// All of `in`, as it is. REQUIRES: `out` is as large
void copy_all(const ConstArray& in, const MutableArray& out);
/// The pixels of `region`, which may reach beyond `in` and be smaller than `out`, to its upper left
/// corner; the rest becomes 0.
void copy_region(const ConstArray& in, const Region& region, const MutableArray& out);

}  // namespace slipstream
