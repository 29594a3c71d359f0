#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <system_error>
#include <thread>

#include "slipstream/datasets/datasets.h"
#include "support/compressed.h"
#include "support/image_records.h"
#include "support/tar_writer.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string record_text(const char* name) {
  const auto file = image_record(name).file;
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

std::string field_text(const Field& field) {
  const ConstArray view = field.array.view();
  return {view.as<char>(), view.as<char>() + view.bytes()};
}

class TarShardsTest : public testing::Test {
 protected:
  fs::path path(const std::string& name = "a.tar") const { return folder_.path() / name; }
  /// Writes a shard of members (NAME, BYTES); a member without bytes contains its name.
  fs::path write(const std::vector<std::pair<std::string, std::string>>& members,
                 const std::string& name = "a.tar") const {
    TarWriter tar;
    for (const auto& [member, bytes] : members) tar.add(member, bytes);
    tar.write(path(name));
    return path(name);
  }
  std::string error(const std::vector<std::pair<std::string, std::string>>& members) const {
    return thrown_by([&] { tar_shards({write(members)}); });
  }
  static std::string read_error(const Dataset& dataset, std::size_t index = 0) {
    Sample sample;
    return thrown_by([&] { dataset.read(index, sample); });
  }

  TemporaryFolder folder_;
};

TEST_F(TarShardsTest, FieldsFollowTheMemberExtensions) {
  write({{"1.jpg", "x"}}, "image.tar");
  write({{"1.cls", "0"}, {"1.png", "x"}}, "label.tar");
  write({{"1.jpeg", "x"}, {"1.seg.png", "x"}}, "mask.tar");
  write({{"1.cls", "0"}, {"1.jpeg", "x"}, {"1.mask.png", "x"}}, "both.tar");
  const auto names = [&](const char* name) {
    std::string all;
    for (const FieldSpec& spec :
         tar_shards({path(name)}, {.classes = 5, .mask_classes = 7})->fields()) {
      all += spec.name + std::to_string(static_cast<int>(spec.kind)) +
             std::to_string(spec.classes) + " ";
    }
    return all;
  };
  EXPECT_EQ(names("image.tar"), "image00 ");
  EXPECT_EQ(names("label.tar"), "image00 label25 ");
  EXPECT_EQ(names("mask.tar"), "image00 label17 ");
  EXPECT_EQ(names("both.tar"), "image00 label25 mask17 ");
}

TEST_F(TarShardsTest, ReadsEverySampleOfEveryShard) {
  write({{"d/1.cls", " 3\n"}, {"d/1.jpg", "first"}, {"d/2.cls", "4"}, {"d/2.jpg", "second"}});
  write({{"d/1.cls", "5"}, {"d/1.png", "third"}}, "b.tar");
  const auto dataset = tar_shards({path("a.tar"), path("b.tar")});
  ASSERT_EQ(dataset->size(), 3u);
  std::vector<std::string> all;
  for (const std::size_t i : {2, 0, 1}) {
    Sample sample;
    dataset->read(i, sample);
    EXPECT_TRUE(sample.fields[0].encoded);
    EXPECT_FALSE(sample.fields[1].encoded);
    all.push_back(field_text(sample.fields[0]) + " " +
                  std::to_string(sample.fields[1].array.view().as<std::int64_t>()[0]) + " " +
                  fs::path(dataset->name(i)).lexically_relative(folder_.path()).string());
  }
  EXPECT_THAT(
      all, ElementsAre("third 5 b.tar:d/1.png", "first 3 a.tar:d/1.jpg", "second 4 a.tar:d/2.jpg"));
}

TEST_F(TarShardsTest, MaskIsReadAndMustHaveTheImageSize) {
  write({{"1.jpg", record_text("rgb_420.jpg")}, {"1.seg.png", record_text("gray_8.png")}});
  Sample sample;
  tar_shards({path()})->read(0, sample);
  EXPECT_EQ(field_text(sample.fields[1]), record_text("gray_8.png"));
  EXPECT_TRUE(sample.fields[1].encoded);
  const Levels gray(4 * 6);
  const auto small = encode_png(view_levels(gray, {4, 6}));
  write({{"1.jpg", record_text("rgb_420.jpg")},
         {"1.seg.png", std::string(reinterpret_cast<const char*>(small.data()), small.size())}});
  EXPECT_THAT(read_error(*tar_shards({path()})),
              AllOf(HasSubstr("a.tar:1.jpg"), HasSubstr("6 x 4 pixels")));
}

TEST_F(TarShardsTest, DecompressesMembers) {
  write({{"1.jpg.zst", zstd_compressed("image")}, {"1.cls.lz4", lz4_compressed("12")}});
  const auto dataset = tar_shards({path()});
  for (int i = 0; i < 2; ++i) {
    Sample sample;
    dataset->read(0, sample);
    EXPECT_EQ(field_text(sample.fields[0]), "image");
    EXPECT_EQ(sample.fields[1].array.view().as<std::int64_t>()[0], 12);
  }
}

TEST_F(TarShardsTest, MemberOverMaxBytesThrows) {
  write({{"1.jpg.zst", zstd_compressed(std::string(1 << 20, 'x'))},
         {"2.jpg", std::string(1001, 'x')}});
  const auto dataset = tar_shards({path()}, {.max_member_bytes = 1000});
  EXPECT_THAT(read_error(*dataset, 0),
              AllOf(HasSubstr("a.tar:1.jpg.zst"), HasSubstr("more than 1000 bytes")));
  EXPECT_THAT(read_error(*dataset, 1), AllOf(HasSubstr("a.tar:2.jpg"), HasSubstr("1001 bytes")));
}

TEST_F(TarShardsTest, DamagedMemberIsNamedInTheError) {
  write({{"1.jpg.zst", "no zstd"},
         {"1.cls", "cat"},
         {"2.jpg", "x"},
         {"2.cls", "-1"},
         {"3.jpg", "x"},
         {"3.cls", ""}});
  const auto dataset = tar_shards({path()});
  EXPECT_THAT(read_error(*dataset, 0), AllOf(StartsWith("Error: the image of '"),
                                             HasSubstr("a.tar:1.jpg.zst"), HasSubstr("damaged")));
  EXPECT_THAT(read_error(*dataset, 1),
              AllOf(StartsWith("Error: the label of '"), HasSubstr("a.tar:2.jpg"),
                    HasSubstr("'-1' is not a class")));
  EXPECT_THAT(read_error(*dataset, 2), HasSubstr("'' is not a class index"));
}

TEST_F(TarShardsTest, ReadsAllShardsOfAFolderInNameOrder) {
  write({{"1.jpg", "b"}}, "b.tar");
  write({{"1.jpg", "a"}}, "a.tar");
  write({{"1.jpg", "x"}}, "a.txt");
  const auto dataset = tar_shards({folder_.path()});
  ASSERT_EQ(dataset->size(), 2u);
  EXPECT_THAT(dataset->name(0), HasSubstr("a.tar:1.jpg"));
  fs::create_directory(path("empty"));
  EXPECT_THAT(thrown_by([&] { tar_shards({path("empty")}); }), StartsWith("Refused: no .tar in"));
}

TEST_F(TarShardsTest, IgnoresMembersThatAreNoField) {
  TarWriter tar;
  tar.add("./", "", '5');
  tar.add("readme.md", "text");
  tar.add("link.txt", "", '2');
  tar.add("/absolute.txt", "text");
  tar.add("./1.json", "{}");
  tar.add("./1.jpg", "image");
  tar.add("./._1.jpg", "hidden");
  tar.add("2.jpg/", "", '5');
  tar.write(path());
  const auto dataset = tar_shards({path()});
  EXPECT_EQ(dataset->size(), 1u);
  EXPECT_THAT(dataset->name(0), HasSubstr("a.tar:./1.jpg"));
}

TEST_F(TarShardsTest, AbsoluteParentAndLinkMembersThrow) {
  EXPECT_THAT(error({{"/a.jpg", ""}}),
              AllOf(StartsWith("Error: shard '"),
                    HasSubstr("a.tar': member '/a.jpg' has an absolute name")));
  EXPECT_THAT(error({{"x/../a.jpg", ""}}), HasSubstr("member 'x/../a.jpg' has a name with '..'"));
  EXPECT_THAT(error({{"../a.jpg", ""}}), HasSubstr("'..'"));
  for (const char type : {'1', '2'}) {
    TarWriter tar;
    tar.add("a.jpg", "", type);
    tar.write(path());
    EXPECT_THAT(thrown_by([&] { tar_shards({path()}); }),
                AllOf(HasSubstr("member 'a.jpg' is a link"), HasSubstr("--dereference")));
  }
}

TEST_F(TarShardsTest, UnsupportedFormatsAreCountedInRemarksAndErrors) {
  write({{"1.jpg", "x"}, {"2.jpg", "x"}}, "a.tar");
  write({{"1.jpg", "x"}, {"x.y/2.avif", "x"}, {"3.AVIF", "x"}, {"4.jxl", "x"}}, "b.tar");
  write({{"1.jpg", "x"}, {"2.avif", "x"}}, "c.tar");
  for (int i = 0; i < 2; ++i) {  // first from the archives, then from the indexes
    EXPECT_THAT(tar_shards({path("a.tar")})->remarks(), ElementsAre());
    EXPECT_THAT(
        tar_shards({path("a.tar"), path("b.tar")})->remarks(),
        ElementsAre(AllOf(HasSubstr("b.tar': 3 members have formats that are not supported"),
                          HasSubstr("(2 .avif, 1 .jxl): convert them"))));
    EXPECT_THAT(tar_shards({folder_.path()})->remarks(),
                ElementsAre(HasSubstr("b.tar' and 1 other shard: 4 members have formats")));
  }
  EXPECT_THAT(
      error({{"1.avif", "x"}}),
      AllOf(HasSubstr("has no sample"),
            HasSubstr("; 1 member has a format that is not supported (1 .avif): convert it")));
  EXPECT_THAT(error({{"1.cls", "0"}, {"1.avif", "x"}}),
              AllOf(HasSubstr("has label, but no image"), HasSubstr("(1 .avif)")));
}

TEST_F(TarShardsTest, InconsistentSamplesThrow) {
  EXPECT_THAT(error({{"a.jpg", ""}, {"a.png", ""}}),
              HasSubstr("member 'a.png' is a second image of sample 'a'"));
  EXPECT_THAT(error({{"a.jpg", ""}, {"a.jpg.zst", ""}}), HasSubstr("second image"));
  EXPECT_THAT(error({{"a.jpg", ""}, {"a.cls", "1"}, {"b.jpg", ""}}),
              HasSubstr("sample 'b' has image, but sample 'a' has image, label"));
  EXPECT_THAT(error({{"a.cls", "1"}}), HasSubstr("sample 'a' has label, but no image"));
  EXPECT_THAT(error({{"a.jpg", ""}, {"b.jpg", ""}, {"a.jpg", ""}}),
              HasSubstr("sample 'a' occurs twice, with 'a.jpg' and again with 'a.jpg'"));
  EXPECT_THAT(error({{"a.txt", ""}}),
              AllOf(StartsWith("Error: shard '"), HasSubstr("has no sample")));
  write({{"a.jpg", ""}}, "b.tar");
  write({{"a.jpg", ""}, {"a.cls", "1"}});
  EXPECT_THAT(thrown_by([&] {
                tar_shards({path("a.tar"), path("b.tar")});
              }),
              AllOf(HasSubstr("b.tar' have image,"), HasSubstr("a.tar' image, label")));
}

TEST_F(TarShardsTest, TruncatedShardIsNamedInTheError) {
  write({{"1.jpg", std::string(2000, 'x')}});
  fs::resize_file(path(), 1000);
  EXPECT_THAT(
      thrown_by([&] { tar_shards({path()}); }),
      AllOf(StartsWith("Error: shard '"), HasSubstr("a.tar"), HasSubstr("ends inside '1.jpg'")));
}

TEST_F(TarShardsTest, InvalidOptionsAreAllReported) {
  EXPECT_THAT(
      thrown_by([&] {
        tar_shards(
            {path("none.tar")},
            {.classes = -1, .mask_classes = 257, .max_member_bytes = 0, .max_open_shards = 0});
      }),
      AllOf(StartsWith("Refused: "), HasSubstr("classes is negative"), HasSubstr("257"),
            HasSubstr("max_member_bytes"), HasSubstr("max_open_shards"), HasSubstr("no shard '"),
            HasSubstr("none.tar")));
  EXPECT_THAT(thrown_by([] { tar_shards({}); }), StartsWith("Refused: no shards"));
}

TEST_F(TarShardsTest, SkippedMembersAreRemarkedWithTheFirstName) {
  write({{"a.jpg", "x"},
         {"a.json", "{}"},
         {"track 2.0 (clean).jpg", "x"},
         {"v1.2.jpg", "x"},
         {"b.jpg", "x"},
         {"._b.jpg", "x"}});
  for (const bool is_from_index : {false, true}) {
    SCOPED_TRACE(is_from_index);
    const auto dataset = tar_shards({path()});
    EXPECT_EQ(dataset->size(), 2u);
    EXPECT_THAT(
        dataset->remarks(),
        ElementsAre(AllOf(StartsWith("2 images skipped"), HasSubstr("a.tar:track 2.0 (clean).jpg'"),
                          HasSubstr("first dot")),
                    AllOf(StartsWith("1 member that is no image, label or mask skipped"),
                          HasSubstr("a.tar:a.json'")),
                    AllOf(StartsWith("1 hidden member skipped"), HasSubstr("a.tar:._b.jpg'"))));
  }
}

TEST_F(TarShardsTest, SeparatedMembersOfASampleThrowSortAdvice) {
  const auto sorted = HasSubstr(
      "the members of sample 'a' are not next to each other in the archive; write it again with "
      "their names sorted (tar --sort=name)");
  EXPECT_THAT(error({{"a.cls", "0"}, {"b.cls", "1"}, {"a.jpg", "x"}, {"b.jpg", "x"}}), sorted);
  EXPECT_THAT(
      error({{"a.jpg", "x"}, {"a.cls", "0"}, {"b.jpg", "x"}, {"b.cls", "1"}, {"a.seg.png", "x"}}),
      sorted);
  EXPECT_THAT(
      error({{"c.jpg", "x"}, {"c.cls", "0"}, {"a.jpg", "x"}, {"b.jpg", "x"}, {"a.cls", "1"}}),
      sorted);
  EXPECT_THAT(error({{"a.cls", "0"}, {"b.jpg", "x"}}),
              HasSubstr("sample 'a' has label, but no image"));
}

TEST_F(TarShardsTest, ReadsEveryImageExtensionOfImageFolders) {
  for (const char* name :
       {"a.jpe", "a.JFIF", "a.ppm", "a.pgm", "a.bmp", "a.gif", "a.tif", "a.tiff", "a.webp"}) {
    EXPECT_EQ(tar_shards({write({{name, "x"}}, std::string(name) + ".tar")})->size(), 1u) << name;
  }
}

// --- Shards that change while they are in use
// -----------------------------------------------------

void overwrite(const fs::path& path, const std::string& bytes, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file << bytes;
  file.close();
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
}

TEST_F(TarShardsTest, ShardChangedWhileOpenThrows) {
  write({{"1.jpg", "image"}});
  const auto dataset = tar_shards({path()});
  EXPECT_EQ(read_error(*dataset), "nothing");
  overwrite(path(), "other", 512);
  EXPECT_THAT(read_error(*dataset), AllOf(StartsWith("Error: "), HasSubstr("a.tar' was changed")));
}

TEST_F(TarShardsTest, NewHardLinkOrModeIsNotAChange) {
  write({{"1.jpg", "image"}});
  const auto dataset = tar_shards({path()});
  EXPECT_EQ(read_error(*dataset), "nothing");
  fs::create_hard_link(path(), path("b.tar"));
  fs::permissions(path(), fs::perms::owner_read);
  EXPECT_EQ(read_error(*dataset), "nothing");
}

TEST_F(TarShardsTest, ShardTruncatedWhileOpenThrows) {
  write({{"1.jpg", std::string(2000, 'x')}});
  const auto dataset = tar_shards({path()});
  EXPECT_EQ(read_error(*dataset), "nothing");
  fs::resize_file(path(), 700);
  EXPECT_THAT(read_error(*dataset), AllOf(HasSubstr("a.tar"), HasSubstr("became shorter")));
  EXPECT_THAT(dataset->name(0), HasSubstr("a.tar"));
}

TEST_F(TarShardsTest, ShardReplacedWhileOpenThrows) {
  write({{"1.jpg", "image"}});
  const auto dataset = tar_shards({path()});
  EXPECT_EQ(read_error(*dataset), "nothing");
  write({{"1.jpg", "other"}});
  EXPECT_THAT(read_error(*dataset),
              AllOf(HasSubstr("a.tar"), HasSubstr("was replaced or removed")));
}

TEST_F(TarShardsTest, ShardReplacedWhileClosedThrows) {
  write({{"1.jpg", "image"}});
  write({{"1.jpg", "b"}}, "b.tar");
  const auto dataset = tar_shards({path(), path("b.tar")}, {.max_open_shards = 1});
  EXPECT_EQ(read_error(*dataset, 0), "nothing");
  EXPECT_EQ(read_error(*dataset, 1), "nothing");
  write({{"1.jpg", "other"}});
  EXPECT_THAT(read_error(*dataset, 0),
              AllOf(HasSubstr("a.tar"), HasSubstr("is not the file it was")));
  EXPECT_EQ(read_error(*dataset, 1), "nothing");
}

TEST_F(TarShardsTest, OpenFilesStayBelowMaxOpenShards) {
  std::vector<fs::path> paths;
  for (int i = 0; i < 20; ++i) {
    paths.push_back(write({{"1.jpg", std::to_string(i)}}, std::to_string(i) + ".tar"));
  }
  const auto dataset = tar_shards(paths, {.max_open_shards = 3});
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  Sample sample;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 20; ++i) {
      dataset->read(i, sample);
      EXPECT_EQ(field_text(sample.fields[0]), std::to_string(i));
    }
  }
  EXPECT_LE(descriptors() - before, 3);
}

TEST_F(TarShardsTest, RunningOutOfFileDescriptorsGivesAdvice) {
  const auto dataset = tar_shards({write({{"1.jpg", "image"}})});
  // UndefinedBehaviorSanitizer opens a pipe when it first checks an object of a type, so that must
  // happen before.
  ASSERT_EQ(read_error(*tar_shards({write({{"1.jpg", "image"}}, "b.tar")})), "nothing");
  thrown_by([] { throw std::system_error(EMFILE, std::generic_category()); });
  ::rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const ::rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const std::string thrown = read_error(*dataset);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(thrown,
              AllOf(HasSubstr("a.tar"), HasSubstr("Too many open files"), HasSubstr("ulimit")));
  EXPECT_EQ(read_error(*dataset), "nothing");
}

TEST_F(TarShardsTest, ConcurrentReadsReturnCorrectSamples) {
  constexpr std::size_t kShards = 5, kSamples = 20;
  std::vector<fs::path> paths;
  for (std::size_t s = 0; s < kShards; ++s) {
    TarWriter tar;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const std::string text = std::to_string(s * kSamples + i);
      tar.add(std::to_string(i) + ".jpg.zst", zstd_compressed(text));
    }
    paths.push_back(path(std::to_string(s) + ".tar"));
    tar.write(paths.back());
  }
  const auto dataset = tar_shards(paths, {.max_open_shards = 2});
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Sample sample;
      for (std::size_t i = 0; i < 200; ++i) {
        const std::size_t index = (i * 37 + t * 11) % dataset->size();
        dataset->read(index, sample);
        ASSERT_EQ(field_text(sample.fields[0]), std::to_string(index));
      }
    });
  }
}

}  // namespace
}  // namespace slipstream
