#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/page_data.h"
#include "support/count_in.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string make_page(const std::string& words) {
  return page_html({{"title", words}, {"note", ""}, {"sections", Json::array()}});
}

TEST(Page, NoTextEndsTheDataOrALineOfScript) {
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

TEST(Page, IsCompleteAndNamesNothingToLoad) {
  const std::string page = make_page("x");
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>\n"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* words : {"<script src", "url(", "@import", "innerHTML", "outerHTML",
                            "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import("})
    EXPECT_THAT(page, Not(HasSubstr(words)));
}

}  // namespace
}  // namespace slipstream
