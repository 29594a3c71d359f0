#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace slipstream {

/// Wire format: how a field is encoded for the copy to the device. The device expands it before any
/// stage reads it. Formats for which is_exact() is true reproduce every bit. docs/plan.md describes
/// the formats.
enum class Wire : std::uint8_t {
  plain,     ///< the field as stages read it, not encoded
  smallest,  ///< class indices in the smallest sufficient type: uint8, uint16 or int32
  bits,      ///< class indices of at most 16 classes, in 1, 2 or 4 bits each
  one_hot,   ///< a one-hot vector, as the index of its 1
  bf16,      ///< float32 rounded to bfloat16
  fp16,      ///< float32 rounded to IEEE half precision
  jpeg,      ///< images as JPEG files: decoded, cropped and resized on the device (a GPU)
  host,      ///< not copied; stages cannot read it
};

/// Wire format of each field, by field name. Fields that are not listed use Wire::plain.
using WireFormats = std::map<std::string, Wire>;

/// Returns true if any field uses the format `wire`.
bool has_format(const WireFormats& formats, Wire wire);

/// Returns the enumerator's name, such as "bits".
std::string_view to_string(Wire wire);
/// Returns the format called `name`. Throws Refused for an unknown name and lists the known ones.
Wire wire_named(const std::string& name);
/// Returns true if a field in this format has the same bits on the device as with Wire::plain.
constexpr bool is_exact(Wire wire) {
  return wire != Wire::bf16 && wire != Wire::fp16 && wire != Wire::jpeg;
}

}  // namespace slipstream
