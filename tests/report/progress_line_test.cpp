#include "report/progress_line.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace slipstream {
namespace {

using testing::IsEmpty;

class ProgressLineTest : public testing::Test {
 protected:
  ProgressLineOptions terminal() {
    return {.columns = [this] { return columns_; }};
  }

  Progress at(std::uint64_t step, double elapsed_s) {
    return {.step = step,
            .steps = 100,
            .elapsed_s = elapsed_s,
            .loss = 2.5f,
            .input_wait_share = 0.124};
  }

  /// Returns the text that was written since the last call.
  std::string written() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  std::size_t columns_ = 80;
  std::ostringstream out_;
};

TEST_F(ProgressLineTest, TerminalLineIsOverwrittenAndClearedAtFinish) {
  ProgressLine line(out_, terminal());
  line.update(at(0, 0));
  EXPECT_EQ(written(), "\rstep 0/100  - steps/s  loss 2.5  input wait 12 %");
  line.update(at(10, 1));
  EXPECT_EQ(written(), "\rstep 10/100  10.0 steps/s  loss 2.5  input wait 12 %  left 0:09");
  line.update({.step = 20, .elapsed_s = 2});
  const std::string text = written();
  EXPECT_EQ(
      text.size(),
      std::string("\rstep 10/100  10.0 steps/s  loss 2.5  input wait 12 %  left 0:09").size());
  EXPECT_THAT(text, testing::StartsWith("\rstep 20  10.0 steps/s  loss 0  input wait 0 %   "));
  line.finish();
  const std::string blanks(std::string("step 20  10.0 steps/s  loss 0  input wait 0 %").size(),
                           ' ');
  EXPECT_EQ(written(), "\r" + blanks + "\r");
}

TEST_F(ProgressLineTest, DrawsAtMostTenTimesASecond) {
  std::size_t drawn = 0;
  ProgressLine line(out_, terminal());
  for (std::uint64_t step = 0; step < 10'000; ++step) {
    line.update(at(step, static_cast<double>(step) * 1e-4));
    drawn += written().empty() ? 0 : 1;
  }
  EXPECT_LE(drawn, 10u);
  EXPECT_GE(drawn, 9u);
}

TEST_F(ProgressLineTest, LineFitsTerminalWidth) {
  ProgressLine line(out_, terminal());
  line.update(at(10, 1));
  double now = 1;
  for (columns_ = 80; columns_ > 0; --columns_) {
    written();
    line.update(at(10, now += 1));
    const std::string text = written();
    EXPECT_LE(text.size(), columns_);
    EXPECT_EQ(text.substr(0, std::min<std::size_t>(columns_, 5)),
              std::string("\rstep").substr(0, columns_));
  }
  columns_ = 55;
  line.update(at(20, now += 1));
  EXPECT_THAT(written(), testing::ContainsRegex("step 20/100  .* steps/s  loss .*  left "));
}

TEST_F(ProgressLineTest, ShowsEpochScoreAndLearningRateIfKnown) {
  columns_ = 200;
  ProgressLineOptions options = terminal();
  options.facts = [](const Progress& progress) -> TrainingFacts {
    if (progress.step < 10) return {};
    return {.epoch = "3/90", .score = "top1 0.761", .lr = 0.0025};
  };
  ProgressLine line(out_, options);
  line.update(at(0, 0));
  EXPECT_EQ(written(), "\rstep 0/100  - steps/s  loss 2.5  input wait 12 %");
  line.update(at(10, 1));
  EXPECT_EQ(written(),
            "\repoch 3/90  step 10/100  10.0 steps/s  loss 2.5  top1 0.761  lr 0.0025  "
            "input wait 12 %  left 0:09");
  columns_ = 64;  // the epoch and the score are more useful than the input wait
  line.update(at(20, 2));
  EXPECT_THAT(written(), testing::HasSubstr("\repoch 3/90  step 20/100  10.0 steps/s  loss 2.5  "
                                            "left 0:08"));
  line.update({.step = 30, .steps = 100, .elapsed_s = 3, .measuring = "copy"});
  EXPECT_THAT(written(), testing::HasSubstr("\rstep 30/100  measuring lane 'copy' alone"));
}

TEST_F(ProgressLineTest, SpeedIsMeasuredOverLastSeconds) {
  ProgressLine line(out_, terminal());
  line.update(at(0, 0));
  line.update(at(1, 10));  // a warm-up step
  for (std::uint64_t step = 2; step <= 61; ++step)
    line.update(at(step, 10 + 0.1 * static_cast<double>(step)));
  EXPECT_THAT(written(), testing::HasSubstr("  10.0 steps/s"));
}

TEST_F(ProgressLineTest, SecondRunRestartsSpeedMeasurement) {
  ProgressLine line(out_, terminal());
  line.update(at(50, 1));
  written();
  line.update(at(0, 0));
  line.update(at(4, 2));
  EXPECT_THAT(written(), testing::HasSubstr("step 4/100  2.00 steps/s"));
}

TEST_F(ProgressLineTest, FirstStepShowsNoTimeLeft) {
  ProgressLine line(out_, terminal());
  line.update(at(1, 60));
  EXPECT_THAT(written(), testing::Not(testing::HasSubstr("left")));
  line.update(at(2, 61));
  EXPECT_THAT(written(), testing::EndsWith("left 1:38"));
}

TEST_F(ProgressLineTest, LongTimeLeftIsShownInHours) {
  ProgressLine line(out_, terminal());
  line.update({.step = 1, .steps = 5002, .elapsed_s = 2});
  line.update({.step = 2, .steps = 5002, .elapsed_s = 4});
  EXPECT_THAT(written(), testing::EndsWith("left 2:46:40"));
}

TEST_F(ProgressLineTest, NanLossIsShown) {
  ProgressLine line(out_, terminal());
  line.update({.step = 1, .steps = 2, .elapsed_s = 1, .loss = NAN});
  EXPECT_THAT(written(), testing::HasSubstr("loss nan"));
}

TEST_F(ProgressLineTest, WithoutTerminalLineIsLoggedEveryFewSeconds) {
  ProgressLine line(out_, {});
  line.update(at(0, 0));
  line.update(at(10, 1));
  EXPECT_THAT(written(), IsEmpty());
  line.update(at(50, 5));
  EXPECT_EQ(written(), "step 50/100  10.0 steps/s  loss 2.5  input wait 12 %  left 0:05\n");
  line.update(at(90, 9));
  EXPECT_THAT(written(), IsEmpty());
  line.update(at(99, 9.95));
  line.finish();
  EXPECT_THAT(written(), testing::MatchesRegex("step 99/100  .*\n"));
  line.finish();
  EXPECT_THAT(written(), IsEmpty());
}

TEST_F(ProgressLineTest, NothingIsWrittenIfRunNeverStarts) {
  { const ProgressLine line(out_, {}); }
  { const ProgressLine line(out_, terminal()); }
  EXPECT_THAT(written(), IsEmpty());
}

TEST_F(ProgressLineTest, ClearedLineIsRedrawnByNextUpdate) {
  ProgressLine line(out_, terminal());
  line.update(at(1, 1));
  line.clear();
  written();
  line.clear();
  EXPECT_THAT(written(), IsEmpty());
  line.update(at(1, 1.01));
  EXPECT_THAT(written(), testing::StartsWith("\rstep 1/100"));
}

TEST_F(ProgressLineTest, LastStateIsNotLoggedWithoutReader) {
  ProgressLine line(out_, {.is_read = [] { return false; }});
  line.update(at(10, 1));
  line.finish();
  EXPECT_THAT(written(), IsEmpty());
}

TEST(HasNoReader, IsTrueOnlyIfReadEndOfPipeIsClosed) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(has_no_reader(ends[1]));
  ::close(ends[0]);
  EXPECT_TRUE(has_no_reader(ends[1]));
  ::close(ends[1]);
  EXPECT_FALSE(has_no_reader(-1));
}

TEST(TerminalColumns, MatchTerminalSizeAndDefaultTo80) {
  const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (controller < 0 || ::grantpt(controller) != 0 || ::unlockpt(controller) != 0)
    GTEST_SKIP() << "this machine has no pseudo-terminals";
  const int terminal = ::open(::ptsname(controller), O_RDWR | O_NOCTTY);
  winsize size{};
  EXPECT_EQ(terminal_columns(terminal), 80u);
  size.ws_col = 123;
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  EXPECT_EQ(terminal_columns(terminal), 123u);
  ::close(terminal);
  ::close(controller);
}

TEST(TerminalColumns, AreZeroWithoutTerminal) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(terminal_columns(ends[1]), 0u);
  for (const int end : ends) ::close(end);
  EXPECT_EQ(terminal_columns(-1), 0u);
}

}  // namespace
}  // namespace slipstream
