#include "report/sheet_page.h"

#include <array>
#include <cstdio>

#include "datasets/folders.h"
#include "report/page.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

std::string base64(const std::vector<std::byte>& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      group = group << 8 | (k < bytes.size() ? std::to_integer<std::uint32_t>(bytes[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63U];
  }
  return text;
}

std::string css_color(const Rgb& color) {
  std::array<char, 8> text;
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", color[0], color[1], color[2]);
  return text.data();
}

Json to_json(const Tile& tile) {
  return {{"png", base64(encode_png(tile.pixels.view()))},
          {"captions", json_list(tile.captions, printable_name)},
          {"is_marked", tile.is_marked}};
}

}  // namespace

std::string sheet_html(const Sheet& sheet, const std::string& title) {
  const Json section = {
      {"title", ""},
      {"note", ""},
      {"tone", ""},
      {"columns", sheet.columns},
      {"cell", sheet.cell},
      {"background", css_color(sheet.background)},
      {"tiles", json_list(sheet.tiles, [](const Tile& tile) { return to_json(tile); })}};
  return page_html(
      {{"title", printable(title)}, {"note", ""}, {"sections", Json::array({section})}});
}

std::string sheet_file(const Sheet& sheet, const std::string& title, const std::string& path) {
  if (lower_extension(path) == ".html") return sheet_html(sheet, title);
  const std::vector<std::byte> png = sheet_png(sheet);
  return {reinterpret_cast<const char*>(png.data()), png.size()};
}

}  // namespace slipstream
