#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "core/files.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/resize.h"
#include "support/thrown.h"
#include "tools/convert.h"
#include "tools/scenes_test.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using Convert = Converted (*)(const Dataset&, const fs::path&, const ConvertOptions&);
constexpr Convert kForms[] = {convert_to_shards, convert_to_npy};

/// Tests the messages of conversions about the manifest of another conversion, and about an
/// unreadable one.
class ManifestTest : public ScenesTest {
 protected:
  fs::path out() const { return folder_.path() / "out"; }

  static ConvertOptions options_for(std::size_t part) {
    ConvertOptions options;
    options.samples_per_shard = part;
    options.threads = 3;
    options.transforms = {{"first", Resize{{16, 12}}}, {"second", Resize{{8, 8}}}};
    return options;
  }

  std::string refusal(Convert convert, const ConvertOptions& options) const {
    return thrown_by([&] { convert(*source(), out(), options); });
  }

  /// Returns the message about the manifest in which `from` has been replaced.
  std::string message_with(const std::string& from, const std::string& to) const {
    const std::string before = read_text(out() / "manifest.json");
    std::string text = before;
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(out() / "manifest.json", text);
    const std::string message = thrown_by([&] { check_converted(out()); });
    write_file_atomically(out() / "manifest.json", before);
    return message;
  }
};

TEST_F(ManifestTest, RefusalNamesTheFirstDifferentTransform) {
  convert_to_shards(*source(), out(), options_for(30));
  ConvertOptions other = options_for(30);
  other.transforms[1].op = Resize{{8, 9}};
  EXPECT_THAT(refusal(convert_to_shards, other),
              HasSubstr("\n  its transform 2, \"second\", has the size [8,8], wanted: [8,9]\n"));
  other.transforms[0].name = "other";
  EXPECT_THAT(refusal(convert_to_shards, other),
              HasSubstr("\n  its transform 1 is \"first\", wanted: \"other\"\n"));
  other.transforms = {{"first", Resize{{16, 12}}}};
  EXPECT_THAT(refusal(convert_to_shards, other),
              HasSubstr("\n  its transform 2, \"second\", is one too many\n"));
  other.transforms = options_for(30).transforms;
  other.transforms.push_back({"third", Resize{{8, 8}}});
  EXPECT_THAT(refusal(convert_to_shards, other),
              HasSubstr("\n  its transform 3, \"third\", is missing\n"));
}

TEST_F(ManifestTest, RefusalNamesTheFirstDifferentField) {
  convert_to_npy(*source(), out(), options_for(30));
  ConvertOptions other = options_for(30);
  other.transforms[1].op = Resize{{8, 9}};
  EXPECT_THAT(
      refusal(convert_to_npy, other),
      AllOf(HasSubstr("\n  its field 1, \"image\", has the shape [8,8,3], wanted: [8,9,3]\n"),
            HasSubstr("\n  its transform 2, \"second\", has the size [8,8], wanted: [8,9]\n")));
}

TEST_F(ManifestTest, DamagedManifestErrorNamesTheMissingKey) {
  convert_to_shards(*source(), out(), options_for(30));
  EXPECT_THAT(message_with("\"digest\"", "\"digests\""),
              AllOf(HasSubstr("is not a manifest of a conversion: key 'digest' not found"),
                    Not(HasSubstr("json.exception"))));
  fs::remove_all(out());
  convert_to_npy(*source(), out(), options_for(30));
  EXPECT_THAT(message_with("\"blocks\"", "\"blokcs\""),
              HasSubstr("' is damaged: key 'blocks' not"));
}

TEST_F(ManifestTest, OtherOrMissingVersionIsReportedAsSuch) {
  for (const Convert convert : kForms) {
    fs::remove_all(out());
    convert(*source(), out(), options_for(30));
    EXPECT_THAT(message_with("\"version\": 1", "\"version\": 2"),
                AllOf(StartsWith("Error: '"), HasSubstr("manifest.json' is of version 2, but this "
                                                        "program reads version 1: ")));
    EXPECT_THAT(message_with("\"version\": 1,", ""),
                AllOf(StartsWith("Error: '"), HasSubstr("manifest.json' has no version, but this "
                                                        "program reads version 1: ")));
  }
}

TEST_F(ManifestTest, CheckReportsProgressAndCanBeStopped) {
  for (const Convert convert : kForms) {
    fs::remove_all(out());
    const std::size_t parts = convert(*source(), out(), options_for(4)).parts;
    std::mutex mutex;
    std::size_t calls = 0, all = 0, most = 0;
    CheckOptions options;
    options.progress = [&](std::size_t done, std::size_t of) {
      const std::lock_guard lock(mutex);
      ++calls;
      all = of;
      most = std::max(most, done);
    };
    EXPECT_THAT(check_converted(out(), options), IsEmpty());
    EXPECT_EQ(calls, all);
    EXPECT_EQ(most, all);
    EXPECT_EQ(all % parts, 0U);
    std::atomic<int> asked = 0;
    calls = 0;
    options.threads = 1;
    options.stop = [&] { return ++asked > 2; };
    check_converted(out(), options);
    EXPECT_EQ(calls, 2U);
  }
}

TEST_F(ManifestTest, BadSampleSearchReportsProgress) {
  ConvertOptions options = options_for(30);
  std::atomic<std::size_t> calls = 0, all = 0;
  options.searched = [&](std::size_t, std::size_t of) {
    ++calls;
    all = of;
  };
  convert_to_npy(*source(), out(), options);
  EXPECT_EQ(calls, 0U);
  fs::remove_all(out());
  options.on_bad_sample = OnBadSample::skip;
  convert_to_npy(*source(), out(), options);
  EXPECT_EQ(calls, kSamples);
  EXPECT_EQ(all, kSamples);
}

}  // namespace
}  // namespace slipstream
