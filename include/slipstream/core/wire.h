#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace slipstream {

/// How a field travels to the device, where it is expanded again before any stage sees it. All that
/// are is_exact() arrive bit for bit.
enum class Wire : std::uint8_t {
  plain,     ///< as stages see it
  smallest,  ///< class numbers in the smallest type that holds them: u8, u16 or i32
  bits,      ///< class numbers of at most 16 classes in 1, 2 or 4 bits each
  one_hot,   ///< vectors of one 1 and else 0 as the place of the 1
  bf16,      ///< f32 rounded to bfloat16
  f16,       ///< f32 rounded to IEEE half precision
  jpeg,      ///< images as JPEG files: decoded, cropped and resized on the device (a GPU)
  host,      ///< not at all: stages do not see it
};

/// By field name; fields that are not named travel plain.
using WireFormats = std::map<std::string, Wire>;

/// Whether any field travels so.
bool has_format(const WireFormats& formats, Wire wire);

std::string_view name_of(Wire wire);
Wire wire_named(const std::string& name);  ///< throws Refused, naming the known ones
/// Whether what arrives has the same bits as what travels plain.
constexpr bool is_exact(Wire wire) {
  return wire != Wire::bf16 && wire != Wire::f16 && wire != Wire::jpeg;
}

}  // namespace slipstream
