#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace slipstream {

/// The form in which a field travels to the device, where it is expanded again before any stage
/// sees it. Fields in a form that is_exact() arrive bit for bit. docs/plan.md describes the forms.
enum class Wire : std::uint8_t {
  plain,     ///< as stages see it
  smallest,  ///< class numbers in the smallest type that holds them: uint8, uint16 or int32
  bits,      ///< class numbers of at most 16 classes in 1, 2 or 4 bits each
  one_hot,   ///< a vector of a single 1 and otherwise 0, as the place of the 1
  bf16,      ///< float32 rounded to bfloat16
  fp16,      ///< float32 rounded to IEEE half precision
  jpeg,      ///< images as JPEG files: decoded, cropped and resized on the device (a GPU)
  host,      ///< not at all: stages do not see it
};

/// The form of each field, by the field's name. Fields that are not named travel plain.
using WireFormats = std::map<std::string, Wire>;

/// Whether any field travels in the form `wire`.
bool has_format(const WireFormats& formats, Wire wire);

/// The enumerator's name, such as "bits".
std::string_view to_string(Wire wire);
/// The form of that name. Throws Refused for another name, listing the known ones.
Wire wire_named(const std::string& name);
/// Whether a field that travels so arrives with the same bits as one that travels plain.
constexpr bool is_exact(Wire wire) {
  return wire != Wire::bf16 && wire != Wire::fp16 && wire != Wire::jpeg;
}

}  // namespace slipstream
