#include "tools/drawn_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace slipstream {
namespace {

constexpr std::int64_t kGlyphWidth = 5, kAdvance = 6;
constexpr char32_t kFirst = U' ', kLast = U'~';

/// Of each printable character of ASCII a byte for each row, the uppermost first, whose five lowest
/// bits are its pixels.
constexpr std::array<std::uint64_t, kLast - kFirst + 1> kGlyphs = {
    0x0000000000000000, 0x0404040404000400, 0x0a0a0a0000000000, 0x0a0a1f0a1f0a0a00,
    0x040f140e051e0400, 0x1819020408130300, 0x0c12140815120d00, 0x0404080000000000,
    0x0204080808040200, 0x0804020202040800, 0x0004150e15040000, 0x0004041f04040000,
    0x00000000000c0408, 0x0000001f00000000, 0x00000000000c0c00, 0x0001020408100000,
    0x0e11131519110e00, 0x040c040404040e00, 0x0e11010204081f00, 0x1f02040201110e00,
    0x02060a121f020200, 0x1f101e0101110e00, 0x0608101e11110e00, 0x1f01020408080800,
    0x0e11110e11110e00, 0x0e11110f01020c00, 0x000c0c000c0c0000, 0x000c0c00000c0408,
    0x0204081008040200, 0x00001f001f000000, 0x0804020102040800, 0x0e11010204000400,
    0x0e11010d15150e00, 0x0e11111f11111100, 0x1e11111e11111e00, 0x0e11101010110e00,
    0x1c12111111121c00, 0x1f10101e10101f00, 0x1f10101e10101000, 0x0e11101711110f00,
    0x1111111f11111100, 0x0e04040404040e00, 0x0702020202120c00, 0x1112141814121100,
    0x1010101010101f00, 0x111b151511111100, 0x1111191513111100, 0x0e11111111110e00,
    0x1e11111e10101000, 0x0e11111115120d00, 0x1e11111e14121100, 0x0f10100e01011e00,
    0x1f04040404040400, 0x1111111111110e00, 0x11111111110a0400, 0x1111111515150a00,
    0x11110a040a111100, 0x1111110a04040400, 0x1f01020408101f00, 0x0e08080808080e00,
    0x0010080402010000, 0x0e02020202020e00, 0x040a110000000000, 0x0000000000001f00,
    0x0804020000000000, 0x00000e010f110f00, 0x1010161911111e00, 0x00000e1010110e00,
    0x01010d1311110f00, 0x00000e111f100e00, 0x0609081c08080800, 0x00000f11110f010e,
    0x1010161911111100, 0x04000c0404040e00, 0x020006020202120c, 0x1010121418141200,
    0x0c04040404040e00, 0x00001a1515111100, 0x0000161911111100, 0x00000e1111110e00,
    0x00001e11111e1010, 0x00000f11110f0101, 0x0000161910101000, 0x00000e100e011e00,
    0x08081c0808090600, 0x0000111111130d00, 0x00001111110a0400, 0x0000111115150a00,
    0x0000110a040a1100, 0x00001111110f010e, 0x00001f0204081f00, 0x0204040804040200,
    0x0404040404040400, 0x0804040204040800, 0x0000081502000000};
constexpr std::uint64_t kBox = 0x1f111111'11111f00;

void append_escaped(std::u32string& characters, char32_t code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  characters += U"\\u";
  for (int shift = code > 0xffffU ? 20 : 12; shift >= 0; shift -= 4)
    characters.push_back(static_cast<unsigned char>(kDigits[code >> shift & 0xfU]));
}

/// With the escape of each character that has no glyph, such as "\u4e2d": boxes would be all alike.
std::u32string characters_of(const std::string& text) {
  std::u32string characters;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i++]);
    if (first < 0x80) {
      characters.push_back(first);
      continue;
    }
    char32_t code = first & (first >= 0xf0 ? 0x07U : first >= 0xe0 ? 0x0fU : 0x1fU);
    for (; i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80; ++i)
      code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
    append_escaped(characters, code);
  }
  return characters;
}

std::u32string cut(std::u32string characters, std::size_t most) {
  if (characters.size() <= most) return characters;
  characters.resize(most);
  for (std::size_t i = most - std::min<std::size_t>(most, 2); i < most; ++i) characters[i] = U'.';
  return characters;
}

void draw(std::uint64_t glyph, std::int64_t top, std::int64_t left, const Rgb& ink,
          const MutableArray& image) {
  for (std::int64_t y = 0; y < kTextHeight; ++y) {
    const std::uint64_t row = glyph >> (8 * (kTextHeight - 1 - y));
    for (std::int64_t x = 0; x < kGlyphWidth; ++x) {
      if ((row >> (kGlyphWidth - 1 - x) & 1U) == 0) continue;
      std::byte* const pixel = image.data + ((top + y) * image.shape[1] + left + x) * 3;
      for (std::size_t c = 0; c < ink.size(); ++c) pixel[c] = std::byte{ink[c]};
    }
  }
}

}  // namespace

void draw_text(const std::string& text, const TextPlace& place, const Rgb& ink,
               const MutableArray& image) {
  const auto most = static_cast<std::size_t>((place.width + 1) / kAdvance);
  const std::u32string characters = cut(characters_of(text), most);
  const std::int64_t width = static_cast<std::int64_t>(characters.size()) * kAdvance - 1;
  std::int64_t left = place.left + (place.width - width) / 2;
  for (const char32_t each : characters) {
    const bool is_known = each >= kFirst && each <= kLast;
    draw(is_known ? kGlyphs[each - kFirst] : kBox, place.top, left, ink, image);
    left += kAdvance;
  }
}

}  // namespace slipstream
