#include "datasets/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns "LINE:[field][field]" for each row, and the message if reading throws.
std::vector<std::string> rows(std::string_view text) {
  CsvReader reader(text);
  std::vector<std::string> all;
  std::vector<std::string> fields;
  const std::string thrown = thrown_by([&] {
    while (reader.next(fields)) {
      std::string row = std::to_string(reader.line()) + ":";
      for (const std::string& field : fields) row += "[" + field + "]";
      all.push_back(row);
    }
  });
  if (thrown != "nothing") all.push_back(std::to_string(reader.line()) + ":" + thrown);
  return all;
}

TEST(Csv, ReadsRowsWithAnyLineEnd) {
  EXPECT_THAT(rows("a,b\n1,2\r\n3,4"), ElementsAre("1:[a][b]", "2:[1][2]", "3:[3][4]"));
  EXPECT_THAT(rows("\xef\xbb\xbf"
                   "a\n\n\r\nb\n"),
              ElementsAre("1:[a]", "4:[b]"));
  EXPECT_THAT(rows(""), ElementsAre());
}

TEST(Csv, KeepsEmptyFieldsAndBlanks) {
  EXPECT_THAT(rows(",,\n a ,\"\",b"), ElementsAre("1:[][][]", "2:[ a ][][b]"));
  EXPECT_THAT(rows("a\rb,c"), ElementsAre("1:[a\rb][c]"));
}

TEST(Csv, ReadsQuotedFields) {
  EXPECT_THAT(rows("\"a,b\",\"c\"\"d\",\"\"\"\"\nx"), ElementsAre("1:[a,b][c\"d][\"]", "2:[x]"));
  EXPECT_THAT(rows("\"a\nb\r\nc\"\r\nx"), ElementsAre("1:[a\nb\r\nc]", "4:[x]"));
}

TEST(Csv, MisplacedQuotesAreRefused) {
  EXPECT_THAT(rows("a\n\"b\nc"), ElementsAre("1:[a]", HasSubstr("2:Error: a quote is not closed")));
  EXPECT_THAT(rows("a\nb\"c"), ElementsAre("1:[a]", HasSubstr("2:Error: there is a quote inside")));
  EXPECT_THAT(rows("\"a\"b"), ElementsAre(HasSubstr("1:Error: there is text after")));
}

}  // namespace
}  // namespace slipstream
