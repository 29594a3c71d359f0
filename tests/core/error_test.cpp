#include "slipstream/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slipstream {
namespace {

using testing::HasSubstr;

TEST(Where, HereReturnsCallersFileAndLine) {
  const Where where = Where::here();
  EXPECT_EQ(where.line, static_cast<unsigned>(__LINE__ - 1));
  EXPECT_THAT(where.file, HasSubstr("error_test.cpp"));
}

TEST(Ensure, TrueConditionDoesNotThrow) { EXPECT_NO_THROW(ensure(true, "one")); }

TEST(Ensure, FalseConditionThrowsMessageAndLocation) {
  try {
    ensure(false, "a slot is written once");
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a slot is written once"));
    EXPECT_THAT(error.what(), HasSubstr("error_test.cpp:"));
  }
}

TEST(Errors, RefusedAndDeviceLostDeriveFromError) {
  EXPECT_THROW(throw Refused("x"), Error);
  EXPECT_THROW(throw DeviceLost("x"), Error);
}

TEST(NearestName, MatchesTyposAndReturnsEmptyWithoutMatch) {
  const std::vector<std::string> names = {"serial", "pipelined", "auto"};
  EXPECT_EQ(nearest_name("pipeline", names), "pipelined");
  EXPECT_EQ(nearest_name("seriel", names), "serial");
  EXPECT_EQ(nearest_name("AUTO", names), "auto");
  EXPECT_EQ(nearest_name("atuo", names), "auto");
  EXPECT_EQ(nearest_name("graph", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("serial", {}), "");
}

TEST(NearestName, MatchesWordsInsideAName) {
  const std::vector<std::string> names = {"random_crop", "random_horizontal_flip"};
  EXPECT_EQ(nearest_name("horizontal_flip", names), "random_horizontal_flip");
  EXPECT_EQ(nearest_name("Flip", names), "random_horizontal_flip");
  EXPECT_EQ(nearest_name("rop", names), "");
  EXPECT_EQ(nearest_name("--worker", {"--seed", "--num-workers"}), "--num-workers");
}

TEST(NearestName, NameWithAllLettersDifferentIsNoMatch) { EXPECT_EQ(nearest_name("x", {"y"}), ""); }

TEST(NearestName, FirstOfEquallyNearNamesIsReturned) {
  EXPECT_EQ(nearest_name("workes", {"worker", "workers"}), "worker");
}

TEST(UnknownName, MessageListsKnownNamesAndSuggestion) {
  EXPECT_EQ(unknown_name("workload", "segmentatoin", {"segmentation", "tuning"}),
            "unknown workload 'segmentatoin'; did you mean 'segmentation'? known: segmentation, "
            "tuning");
  EXPECT_EQ(unknown_name("plan", "zzz", {"serial"}), "unknown plan 'zzz'; known: serial");
  EXPECT_EQ(unknown_name("plan", "zzz", {}), "unknown plan 'zzz'; known: none");
}

TEST(Printable, ValidUtf8TextIsUnchanged) {
  for (const char* text : {"", "a.jpg", "d\u00f6g \u732b \U0001f408", "one\n\ttwo", "\u00a0"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a\x1b[2Jb\rc\x7f\b"), "a\\x1b[2Jb\\x0dc\\x7f\\x08");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  // the same escape sequence, begun by a single control character
  EXPECT_EQ(printable("\u009b31m"), "\\xc2\\x9b31m");
}

TEST(Printable, InvalidUtf8IsEscaped) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"\x9b"
            "31m",
            "\\x9b31m"},
           {"caf\xe9", "caf\\xe9"},
           {"\xc3", "\\xc3"},
           {"\xe7\x8c"
            "a",
            "\\xe7\\x8ca"},
           {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
           {"\xc0\x9b", "\\xc0\\x9b"}})
    EXPECT_EQ(printable(text), expected);
}

TEST(Printable, ErrorMessagesAreEscapedOnce) {
  EXPECT_STREQ(Error("cannot read '\x1b]0;x\x07'").what(), "cannot read '\\x1b]0;x\\x07'");
  EXPECT_STREQ(Refused("no '\x1b'").what(), "no '\\x1b'");
  EXPECT_EQ(printable(Error("\x1b").what()), "\\x1b") << "an escaped message is not escaped again";
}

TEST(PrintableName, LineBreaksAndTabsAreEscaped) {
  EXPECT_EQ(printable_name("d\xc3\xb6g"), "d\xc3\xb6g");
  EXPECT_EQ(printable_name("a\nb\tc\r\x1b[31m"), "a\\nb\\tc\\x0d\\x1b[31m");
}

}  // namespace
}  // namespace slipstream
