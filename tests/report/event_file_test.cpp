#include "report/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/files.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr double kTime_s = 1'700'000'000.5;
// The protobuf field wall_time with the value kTime_s.
const std::string kTimeField("\x09\x00\x00\x20\x40\xfc\x54\xd9\x41", 9);

template <typename T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.substr(at, sizeof(value)).data(), sizeof(value));
  return value;
}

std::uint32_t mask_crc(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8; }

class EventFileTest : public testing::Test {
 protected:
  /// Returns the contents of the file's records, with "damaged" in place of an incomplete record
  /// and all after it.
  static std::vector<std::string> events(const fs::path& path) {
    const std::string bytes = read_text(path);
    std::vector<std::string> found;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto length = number_at<std::uint64_t>(bytes, at);
      const std::string event = bytes.substr(at + 12, length);
      const bool is_complete =
          at + 16 + length <= bytes.size() &&
          number_at<std::uint32_t>(bytes, at + 8) == mask_crc(crc32c(bytes.substr(at, 8))) &&
          number_at<std::uint32_t>(bytes, at + 12 + length) == mask_crc(crc32c(event));
      found.push_back(is_complete ? event : "damaged");
      at = is_complete ? at + 16 + length : bytes.size();
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST(Crc32c, MatchesStandardTestVectors) {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // The test vectors are from RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c(std::string(ascending.rbegin(), ascending.rend())), 0x113fdb5cu);
}

TEST_F(EventFileTest, StartsWithVersionAndFirstStep) {
  const EventFile file(folder_.path(), kTime_s, 300);
  EXPECT_THAT(events(file.path()), testing::ElementsAre(kTimeField + "\x1a\x0d"
                                                                     "brain.Event:2",
                                                        kTimeField + "\x10\xac\x02"
                                                                     "\x3a\x02\x08\x01"));
}

TEST_F(EventFileTest, RecordsContainNamesStepsAndValues) {
  EventFile file(folder_.path(), kTime_s, 0);
  file.add(kTime_s, 5, {{"a", 1.5}, {"b", -2}});
  file.add(kTime_s, std::uint64_t{1} << 40, {{std::string(200, 'x'), NAN}});
  const std::vector<std::string> found = events(file.path());
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[2], kTimeField + "\x10\x05" + "\x2a\x14" +
                          std::string("\x0a\x08\x0a\x01"
                                      "a\x15\x00\x00\xc0\x3f",
                                      10) +
                          std::string("\x0a\x08\x0a\x01"
                                      "b\x15\x00\x00\x00\xc0",
                                      10));
  EXPECT_THAT(found[3], HasSubstr("\x10\x80\x80\x80\x80\x80\x20"));
  EXPECT_THAT(found[3], HasSubstr("\x0a\xc8\x01" + std::string(200, 'x')));
}

TEST_F(EventFileTest, FileNameContainsTimeAndProcessIdAndIsUnique) {
  const EventFile first(folder_.path(), kTime_s, 0);
  const EventFile second(folder_.path(), kTime_s, 0);
  const std::string name = first.path().filename();
  EXPECT_THAT(name, testing::StartsWith("events.out.tfevents.1700000000."));
  EXPECT_THAT(name, testing::EndsWith("." + std::to_string(::getpid())));
  EXPECT_EQ(second.path().filename(), name + ".1");
}

TEST_F(EventFileTest, FullDiskLeavesOnlyCompleteRecords) {
  EventFile file(folder_.path(), kTime_s, 0);
  file.add(kTime_s, 1, {{"loss", 1}});
  {
    const WriteLimit limit(fs::file_size(file.path()) + 20);
    EXPECT_EQ(thrown_by([&] {
                file.add(kTime_s, 2, {{"loss", 2}});
              }),
              "Error: cannot write " + file.path().string() + ": File too large");
  }
  file.add(kTime_s, 3, {{"loss", 3}});
  const std::vector<std::string> found = events(file.path());
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(found[2], HasSubstr("\x10\x01\x2a"));
  EXPECT_THAT(found[3], HasSubstr("\x10\x03\x2a"));
}

TEST_F(EventFileTest, FullDiskAtCreationLeavesNoFile) {
  const WriteLimit limit(30);
  EXPECT_THAT(thrown_by([&] { EventFile(folder_.path(), kTime_s, 0).path(); }),
              HasSubstr("File too large"));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(EventFileTest, RemovedFileOrSymlinkThrows) {
  EventFile file(folder_.path(), kTime_s, 0);
  fs::remove(file.path());
  EXPECT_THAT(thrown_by([&] {
                file.add(kTime_s, 1, {{"loss", 1}});
              }),
              "Error: cannot write " + file.path().string() +
                  ": it has been removed; start a new event file");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  fs::create_symlink("other", file.path());
  EXPECT_THAT(
      thrown_by([&] {
        file.add(kTime_s, 1, {{"loss", 1}});
      }),
      "Error: cannot write " + file.path().string() + ": Too many levels of symbolic links");
  EXPECT_FALSE(fs::exists(folder_.path() / "other"));
}

}  // namespace
}  // namespace slipstream
