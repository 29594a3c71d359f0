#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/tar_writer.h"
#include "slipstream/datasets.h"
#include "slipstream/files.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

#if SLIPSTREAM_HAS_LIBARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class OtherArchivesTest : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  std::string error(const fs::path& shard) const {
    return thrown_by([&] { tar_shards({shard}, {.index_dir = path("indexes")}); });
  }
  TemporaryFolder folder_;
};

TEST_F(OtherArchivesTest, ATarWhoseFirstNameLooksLikeCpioIsATar) {
  TarWriter tar;
  tar.add("070701.jpg", "image");
  tar.write(path("a.tar"));
  EXPECT_EQ(tar_shards({path("a.tar")})->name(0), path("a.tar").string() + ":070701.jpg");
}

#if SLIPSTREAM_HAS_LIBARCHIVE

struct Member {
  std::string name;
  std::string bytes;
  unsigned type = AE_IFREG;
};

void write(const fs::path& path, const char* format, const std::vector<Member>& members,
           const char* options = "") {
  ::archive* const out = ::archive_write_new();
  ASSERT_EQ(::archive_write_set_format_by_name(out, format), ARCHIVE_OK);
  ASSERT_EQ(::archive_write_set_options(out, options), ARCHIVE_OK) << ::archive_error_string(out);
  ASSERT_EQ(::archive_write_open_filename(out, path.c_str()), ARCHIVE_OK);
  for (const Member& member : members) {
    ::archive_entry* const entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, member.name.c_str());
    ::archive_entry_set_filetype(entry, member.type);
    ::archive_entry_set_perm(entry, 0644);
    if (member.type == AE_IFLNK) ::archive_entry_set_symlink(entry, "elsewhere");
    ::archive_entry_set_size(entry, static_cast<::la_int64_t>(member.bytes.size()));
    ASSERT_EQ(::archive_write_header(out, entry), ARCHIVE_OK) << ::archive_error_string(out);
    ::archive_write_data(out, member.bytes.data(), member.bytes.size());
    ::archive_entry_free(entry);
  }
  ASSERT_EQ(::archive_write_close(out), ARCHIVE_OK);
  ::archive_write_free(out);
}

std::string long_text(std::size_t seed) {
  std::string text;
  for (std::size_t i = 0; i < 700'000; ++i) text += static_cast<char>(i * i % (251 + seed));
  return text;
}

/// Of every form that is taken: its name, its options, its extension.
using Form = std::array<const char*, 3>;
constexpr std::array<Form, 4> kForms = {{{"cpio", "", "cpio"},
                                         {"newc", "", "cpio"},
                                         {"bin", "", "cpio"},
                                         {"zip", "zip:compression=store", "zip"}}};

TEST_F(OtherArchivesTest, SamplesAreReadAtRandom) {
  const std::vector<Member> members = {{"d", "", AE_IFDIR},   {"d/readme.txt", "text"},
                                       {"d/1.cls", "3"},      {"d/1.jpg", long_text(1)},
                                       {"d/\u00f6.cls", "4"}, {"d/\u00f6.jpg", long_text(2)},
                                       {"d/3.cls", "5"},      {"d/3.jpg", ""}};
  for (const auto& [format, options, extension] : kForms) {
    const fs::path shard = path(std::string("a ") + format + "." + extension);
    write(shard, format, members, options);
    for (int round = 0; round < 2; ++round) {  // the second time by the index that was kept
      const auto dataset = open_dataset(shard);
      ASSERT_EQ(dataset->size(), 3U) << format;
      Sample sample;
      for (const std::size_t i : {2, 0, 1}) {
        dataset->read(i, sample);
        const ConstArray image = sample.fields[0].array.view();
        const std::string bytes(image.as<char>(), image.as<char>() + image.bytes());
        EXPECT_EQ(bytes, members[3 + 2 * i].bytes) << format << i;
        EXPECT_EQ(sample.fields[1].array.view().as<std::int64_t>()[0], 3 + std::int64_t(i));
        EXPECT_EQ(dataset->name(i), shard.string() + ":" + members[3 + 2 * i].name);
      }
    }
  }
}

TEST_F(OtherArchivesTest, CompressedMembersAreRefusedWithTheRemedy) {
  write(path("a.zip"), "zip", {{"1.txt", std::string(100, 'x')}, {"1.jpg", std::string(100, 'x')}},
        "zip:compression=deflate");
  EXPECT_THAT(error(path("a.zip")),
              AllOf(StartsWith("Error: shard '"),
                    HasSubstr("a.zip': member '1.jpg' does not stand"), HasSubstr("zip -0")));
}

TEST_F(OtherArchivesTest, LinksAndBadNamesAreRefused) {
  for (const auto& [format, options, extension] : kForms) {
    write(path("a"), format, {{"1.jpg", "", AE_IFLNK}}, options);
    EXPECT_THAT(error(path("a")), HasSubstr("member '1.jpg' is a link")) << format;
    write(path("a"), format, {{"x/../../1.jpg", "x"}}, options);
    EXPECT_THAT(error(path("a")), HasSubstr("has a name with '..'")) << format;
  }
}

TEST_F(OtherArchivesTest, ATruncatedArchiveIsAnError) {
  for (const auto& [format, options, extension] : kForms) {
    write(path("a"), format, {{"1.jpg", std::string(5000, 'x')}}, options);
    const std::string whole = read_text(path("a"));
    for (const std::size_t length : {20U, 100U, 3000U}) {
      write_file_atomically(path("a"), std::string_view(whole).substr(0, length));
      EXPECT_THAT(error(path("a")),
                  AllOf(StartsWith("Error: shard '"), HasSubstr("broken archive")))
          << format << length;
    }
  }
}

TEST_F(OtherArchivesTest, ADamagedMemberOfAZipIsNamed) {
  write(path("a"), "zip", {{"1.jpg", std::string(5000, 'x')}}, "zip:compression=store");
  std::fstream file(path("a"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(3000);
  file.put('y');
  file.close();
  EXPECT_THAT(error(path("a")), AllOf(HasSubstr("member '1.jpg': "), HasSubstr("CRC")));
}

TEST_F(OtherArchivesTest, AShardThatIsChangedIsNoticed) {
  write(path("a.cpio"), "newc", {{"1.jpg", "image"}});
  const auto dataset = tar_shards({path("a.cpio")});
  Sample sample;
  dataset->read(0, sample);
  std::fstream file(path("a.cpio"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(120);
  file.put('y');
  file.close();
  fs::last_write_time(path("a.cpio"),
                      fs::last_write_time(path("a.cpio")) + std::chrono::seconds(1));
  EXPECT_THAT(thrown_by([&] { dataset->read(0, sample); }),
              AllOf(StartsWith("Error: "), HasSubstr("a.cpio' was changed")));
}

TEST_F(OtherArchivesTest, AKeyThatComesAgainIsNamedByBoth) {
  write(path("a"), "newc", {{"1.jpg", "x"}, {"2.jpg", "y"}, {"1.png", "z"}});
  EXPECT_THAT(error(path("a")), HasSubstr("comes twice, with '1.jpg' and again with '1.png'"));
}

#else

TEST_F(OtherArchivesTest, WithoutLibarchiveTheMessageSaysSo) {
  for (const std::string start : {"PK\3\4", "070701", "070707", "\x71\xc7"}) {
    write_file_atomically(path("a.zip"), std::string_view(start + std::string(2000, '0')));
    EXPECT_THAT(
        thrown_by([&] { open_dataset(path("a.zip")); }),
        AllOf(StartsWith("Error: shard '"), HasSubstr("a.zip': it is a cpio or zip archive"),
              HasSubstr("built without libarchive"), HasSubstr("pack the files as .tar")));
  }
}

#endif

}  // namespace
}  // namespace slipstream
