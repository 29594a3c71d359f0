#include "slipstream/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace slipstream {
namespace {

using testing::HasSubstr;

TEST(Where, NamesTheCallersFileAndLine) {
  const Where where = Where::here();
  EXPECT_EQ(where.line, static_cast<unsigned>(__LINE__ - 1));
  EXPECT_THAT(where.file, HasSubstr("error_test.cpp"));
}

TEST(Ensure, KeptPromiseDoesNothing) { EXPECT_NO_THROW(ensure(true, "one")); }

TEST(Ensure, BrokenPromiseNamesPromiseAndPlace) {
  try {
    ensure(false, "a slot is written once");
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a slot is written once"));
    EXPECT_THAT(error.what(), HasSubstr("error_test.cpp:"));
  }
}

TEST(Errors, RefusedAndDeviceLostAreErrors) {
  EXPECT_THROW(throw Refused("x"), Error);
  EXPECT_THROW(throw DeviceLost("x"), Error);
}

TEST(NearestName, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"serial", "pipelined", "auto"};
  EXPECT_EQ(nearest_name("pipeline", names), "pipelined");
  EXPECT_EQ(nearest_name("seriel", names), "serial");
  EXPECT_EQ(nearest_name("AUTO", names), "auto");
  EXPECT_EQ(nearest_name("atuo", names), "auto");
  EXPECT_EQ(nearest_name("graph", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("serial", {}), "");
}

TEST(NearestName, ReplacingEveryLetterIsNotNear) { EXPECT_EQ(nearest_name("x", {"y"}), ""); }

TEST(NearestName, TheFirstOfEquallyNearNamesWins) {
  EXPECT_EQ(nearest_name("workes", {"worker", "workers"}), "worker");
}

TEST(UnknownName, ListsWhatIsKnown) {
  EXPECT_EQ(unknown_name("workload", "segmentatoin", {"segmentation", "tuning"}),
            "unknown workload 'segmentatoin'; did you mean 'segmentation'? known: segmentation, "
            "tuning");
  EXPECT_EQ(unknown_name("plan", "zzz", {"serial"}), "unknown plan 'zzz'; known: serial");
  EXPECT_EQ(unknown_name("plan", "zzz", {}), "unknown plan 'zzz'; known: none");
}

}  // namespace
}  // namespace slipstream
