#pragma once

#include <string_view>
#include <vector>

#include "slipstream/core/region.h"
#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Helpers shared by the operations that move pixels. `op` is the operation's name in messages.

/// Throws Refused unless height and width are 1 to 65,536.
void require_sides(std::string_view op, const Size& size);
/// Throws Refused unless `p` is 0 to 1.
void require_probability(std::string_view op, double p);

/// Throws Refused unless `value` is finite in float32.
void require_number(std::string_view op, const char* what, double value);
/// Converts a fill value to float32. Adding 0 turns -0 into +0, because an interpolation between
/// several fill values gives +0.
inline float filling(double value) { return static_cast<float>(value) + 0.0F; }
/// Throws Refused unless an image is uint8 or float32 of 1 to 4 channels.
void require_channels(std::string_view op, const FieldSpec& in);

/// Returns `in` as an image or mask of height x width. Throws Refused if it is neither.
FieldSpec resided(std::string_view op, const FieldSpec& in, std::int64_t height,
                  std::int64_t width);
/// Like resided(), but also throws Refused as require_channels() does.
FieldSpec resampled(std::string_view op, const FieldSpec& in, std::int64_t height,
                    std::int64_t width);
/// Throws Refused if `in` has a fixed size that is smaller than height x width.
void require_room(std::string_view op, const FieldSpec& in, std::int64_t height,
                  std::int64_t width);

/// Returns true for operations that move the pixels of images but of no other field, and for
/// containers of such operations.
bool moves_only_images(const AnyOp& op);
/// Returns the field whose shape the parameters of `op` are generated for, like AnyOp::apply() for
/// a sample: the first image that it touches, else the first field other than boxes; nullptr if it
/// touches none.
const FieldSpec* drawn_for(const AnyOp& op, const std::vector<FieldSpec>& fields);
/// Returns a message that an operation on samples would change none of these fields, or "" if it
/// changes some.
std::string problem_of_fields(const AnyOp& op, const std::vector<FieldSpec>& fields);
/// Throws UnfitSample unless `in` has the size that `drawn` was generated for.
void require_drawn_for(std::string_view op, const DrawnCrop& drawn, const ConstArray& in);

/// Returns whether an operation with probability `p` is applied to the sample of `key`.
bool is_applied(const RandomKey& key, double p);

/// Bytes of one pixel of an image or mask.
std::size_t pixel_bytes(const ConstArray& array);
/// Returns select.operator()<N>(), where N is `bytes` if pixels of common images and masks have
/// this size, so that the compiler knows it, and else 0.
template <typename Select>
auto for_pixel_bytes(std::size_t bytes, const Select& select) {
  switch (bytes) {
    case 1:
      return select.template operator()<1>();
    case 3:
      return select.template operator()<3>();
    case 4:
      return select.template operator()<4>();
    case 8:
      return select.template operator()<8>();
    case 12:
      return select.template operator()<12>();
    default:
      return select.template operator()<0>();
  }
}
/// Copies all of `in` unchanged.
/// REQUIRES: `out` has the same size
void copy_all(const ConstArray& in, const MutableArray& out);
/// Copies the pixels of `region`, which may extend beyond `in` and be smaller than `out`, to the
/// upper left corner of `out`. The rest becomes 0.
void copy_region(const ConstArray& in, const Region& region, const MutableArray& out);

}  // namespace slipstream
