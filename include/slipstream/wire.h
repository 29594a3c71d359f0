#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace slipstream {

/// How a field travels to the device, where it is expanded again before any stage sees it. All but
/// bf16 and f16 arrive bit for bit.
enum class Wire : std::uint8_t {
  plain,     ///< as stages see it
  smallest,  ///< class numbers in the smallest type that holds them: u8, u16 or i32
  bits,      ///< class numbers of at most 16 classes in 1, 2 or 4 bits each
  one_hot,   ///< vectors of one 1 and else 0 as the place of the 1
  bf16,      ///< f32 rounded to bfloat16
  f16,       ///< f32 rounded to IEEE half precision
  host,      ///< not at all: stages do not see it
};

/// By field name; fields that are not named travel plain.
using WireFormats = std::map<std::string, Wire>;

std::string_view name_of(Wire wire);
Wire wire_named(const std::string& name);  ///< throws Refused, naming the known ones
/// Whether what arrives may differ in the last bits.
constexpr bool rounds(Wire wire) { return wire == Wire::bf16 || wire == Wire::f16; }

}  // namespace slipstream
