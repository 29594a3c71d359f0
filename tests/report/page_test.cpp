#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "report/page_data.h"
#include "report/samples.h"
#include "report/sheet_page.h"
#include "support/count_in.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string make_page(const std::string& words) {
  return page_html({{"title", words}, {"note", ""}, {"sections", Json::array()}});
}

TEST(Page, TextIsEscapedInScriptData) {
  const std::string cases[] = {"</script><script>alert(1)</script>",
                               "<!-- <script>",
                               "]]> --> &lt; & \"quoted\" 'it' \\ \\u003c",
                               "\u2028 and \u2029",
                               "\x01\x1b[31m\n\t",
                               "\u732b \u0441\u043e\u0431\u0430\u043a\u0430 \U0001f600",
                               "PAGE_DATA",
                               "data:text/html,<b>"};
  const std::string plain = make_page("plain");
  for (const std::string& words : cases) {
    const std::string page = make_page(words);
    EXPECT_EQ(page_data(page).at("title"), words);
    EXPECT_EQ(page.size() - script_json(Json(words)).size(),
              plain.size() - script_json(Json("plain")).size());
    for (const char* part : {"<", ">", "&", "\u2028", "\u2029"})
      EXPECT_EQ(count_in(page, part), count_in(plain, part)) << words;
  }
  EXPECT_EQ(page_data(make_page("\xff")).at("title"), "\ufffd");
}

TEST(Page, IsCompleteAndLoadsNothing) {
  const std::string page = make_page("x");
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>\n"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* words : {"<script src", "url(", "@import", "innerHTML", "outerHTML",
                            "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import("})
    EXPECT_THAT(page, Not(HasSubstr(words)));
}

std::string decoded_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t group = 0;
  std::size_t bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    group = group << 6 | static_cast<std::uint32_t>(digits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 255U);
  }
  return bytes;
}

TEST(SheetPage, CaptionsAreStoredAsText) {
  const Json page = page_data(sheet_html(sample_sheet(), "Images of <x>"));
  EXPECT_EQ(page.at("title"), "Images of <x>");
  const Json& section = page.at("sections").at(0);
  EXPECT_EQ(section.at("columns"), 2);
  EXPECT_EQ(section.at("background"), "#ffffff");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(section.at("tiles").at(i).at("captions"), Json({"\u732b 0.98", "label <b>\\n\\x1b"}));
    EXPECT_EQ(section.at("tiles").at(i).at("is_marked"), i == 1);
  }
}

TEST(SheetPage, ImagesOfEverySizeAreBase64Encoded) {
  std::set<std::size_t> remainders;
  for (std::int64_t width = 1; width < 40; ++width) {
    Sheet sheet{.cell = 40};
    const MutableArray pixels =
        sheet.tiles.emplace_back().pixels.reset(DType::uint8, {3, width, 3});
    for (std::size_t i = 0; i < pixels.bytes(); ++i)
      pixels.data[i] = static_cast<std::byte>(i * i * i);
    const std::vector<std::byte> png = encode_png(sheet.tiles[0].pixels.view());
    const Json page = page_data(sheet_html(sheet, "x"));
    EXPECT_EQ(decoded_base64(page.at("sections").at(0).at("tiles").at(0).at("png")),
              std::string(reinterpret_cast<const char*>(png.data()), png.size()));
    remainders.insert(png.size() % 3);
  }
  EXPECT_EQ(remainders.size(), 3u);
}

TEST(SheetPage, FileExtensionSelectsPngOrHtml) {
  for (const char* name : {"a.png", "a.PNG", "a", "html"})
    EXPECT_THAT(sheet_file(sample_sheet(), "t", name), StartsWith("\x89PNG")) << name;
  for (const char* name : {"a.html", "b.png/a.HTML"})
    EXPECT_EQ(sheet_file(sample_sheet(), "t", name), sheet_html(sample_sheet(), "t")) << name;
}

}  // namespace
}  // namespace slipstream
