#include "datasets/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "datasets/pax.h"
#include "support/tar_writer.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  std::uint64_t size() const override { return text_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    ASSERT_LE(offset + to.size(), text_.size());
    std::memcpy(to.data(), text_.data() + offset, to.size());
  }

 private:
  std::string text_;
};

/// Returns "NAME=BYTES" for each file, "NAME>" for links and "NAME?" for other members, and the
/// message if reading throws.
std::vector<std::string> members(const std::string& archive) {
  const TextSource source(archive);
  TarReader reader(source);
  std::vector<std::string> all;
  const std::string thrown = thrown_by([&] {
    while (const auto member = reader.next()) {
      const bool is_file = member->kind == TarMember::Kind::file;
      const char* mark = member->kind == TarMember::Kind::link ? ">" : "?";
      const std::string bytes = archive.substr(member->offset, member->size);
      all.push_back(member->name + (is_file ? "=" + bytes : mark));
      EXPECT_EQ(TarReader(source, member->header).next()->offset, member->offset);
    }
  });
  if (thrown != "nothing") all.push_back(thrown);
  return all;
}

std::vector<std::string> members(TarWriter& writer) {
  writer.end();
  return members(writer.bytes());
}

TEST(Tar, ReadsMembersOfEveryKind) {
  TarWriter tar;
  tar.add("v7", "12", '\0');
  tar.add("dir/file", std::string(512, 'x'));
  tar.add("contiguous", "", '7');
  tar.add("dir/", "", '5');
  tar.add("old dir/", "", '\0');
  tar.raw(TarWriter::header("hard", 99, '1'));
  tar.raw(TarWriter::header("soft", 99, '2'));
  tar.raw(TarWriter::header("pipe", 99, '6'));
  tar.add("vendor", "data that is skipped", 'Z');
  tar.add("last", "3");
  EXPECT_THAT(members(tar),
              ElementsAre("v7=12", "dir/file=" + std::string(512, 'x'), "contiguous=", "dir/?",
                          "old dir/?", "hard>", "soft>", "pipe?", "vendor?", "last=3"));
}

TEST(Tar, ReadsLongNames) {
  const std::string name = std::string(200, 'd') + "/" + std::string(200, 'f');
  TarWriter::Block prefixed = TarWriter::header(std::string(100, 'n'), 1);
  std::memcpy(prefixed.data() + 345, "prefix", 6);
  TarWriter::seal(prefixed);
  TarWriter tar;
  tar.add("././@LongLink", std::string(name.c_str(), name.size() + 1), 'L');
  tar.add("short", "1");
  tar.pax("path", name);
  tar.add("short", "2");
  tar.raw(prefixed);
  tar.data("3");
  std::memcpy(prefixed.data() + 257, "ustar  ", 8);  // GNU's magic: these bytes contain no prefix
  TarWriter::seal(prefixed);
  tar.raw(prefixed);
  tar.data("4");
  EXPECT_THAT(members(tar),
              ElementsAre(name + "=1", name + "=2", "prefix/" + std::string(100, 'n') + "=3",
                          std::string(100, 'n') + "=4"));
}

TEST(Tar, PaxSizeOverridesTheHeaderSize) {
  TarWriter tar;
  tar.pax("comment", "nothing to us");
  tar.pax("size", "3");
  tar.raw(TarWriter::header("a", 0));
  tar.data("123");
  tar.add("b", "4");
  EXPECT_THAT(members(tar), ElementsAre("a=123", "b=4"));
}

TEST(Tar, ReadsNumbersInOctalAndBase256) {
  const auto number = [](std::string_view text) {
    return tar_number(std::as_bytes(std::span(text)));
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(number("00000000017\0"sv), 15u);
  EXPECT_EQ(number("  17 \0 rest  "sv), 15u);
  EXPECT_EQ(number("777777777777"sv), 0xfffffffffu);
  EXPECT_EQ(number("\0\0\0\0"sv), 0u);
  EXPECT_EQ(number("\x80\0\0\0\0\0\0\0\0\0\1\2"sv), 258u);
  EXPECT_EQ(number("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"sv), 0x7fffffffffffffffu);
  EXPECT_EQ(number("\x80\0\0\0\x80\0\0\0\0\0\0\0"sv), std::nullopt);
  EXPECT_EQ(number("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"sv), std::nullopt);
  EXPECT_EQ(number("00000000018\0"sv), std::nullopt);
  EXPECT_EQ(number("-0000000001\0"sv), std::nullopt);
}

TEST(Tar, ReadsConcatenatedArchives) {
  TarWriter tar;
  tar.add("a", "1");
  tar.end();
  tar.add("b", "2");
  EXPECT_THAT(members(tar), ElementsAre("a=1", "b=2"));
}

TEST(Tar, AcceptsSignedByteChecksums) {
  TarWriter::Block block = TarWriter::header("\xc3\xa4", 0);
  std::memset(block.data() + 148, ' ', 8);
  int sum = 0;
  for (const char c : block) sum += static_cast<signed char>(c);
  TarWriter::octal(block, 148, 6, static_cast<unsigned>(sum));
  TarWriter tar;
  tar.raw(block);
  EXPECT_THAT(members(tar), ElementsAre("\xc3\xa4="));
}

TEST(Tar, DamagedHeaderThrowsWithByteOffset) {
  TarWriter tar;
  tar.add("a", "1");
  tar.add("b", "2");
  tar.end();
  std::string bytes = tar.bytes();
  bytes[1024 + 130] = '7';
  EXPECT_THAT(members(bytes),
              ElementsAre("a=1", AllOf(StartsWith("Error: "), HasSubstr("byte 1024"),
                                       HasSubstr("no tar header"))));
}

TEST(Tar, TruncationAtEveryByteThrows) {
  TarWriter tar;
  tar.add("a", "1");
  tar.pax("path", "long");
  tar.add("b", std::string(600, '2'));
  const std::size_t last_member = tar.bytes().size();
  tar.end();
  for (std::size_t length = 0; length < last_member + 512; ++length) {
    EXPECT_THAT(members(tar.bytes().substr(0, length)).back(),
                AllOf(StartsWith("Error: "), HasSubstr("ends")))
        << length;
  }
}

TEST(Tar, UnsupportedOrInvalidMembersThrow) {
  const auto error = [](auto fill) {
    TarWriter tar;
    fill(tar);
    return members(tar).back();
  };
  EXPECT_THAT(error([](TarWriter& tar) { tar.add("a", "", 'S'); }), HasSubstr("sparse"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.pax("GNU.sparse.major", "1"); }), HasSubstr("sparse"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.add("a", "", 'M'); }), HasSubstr("volume"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.pax("size", "1", 'g'); }), HasSubstr("global"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.pax("size", "x"); }), HasSubstr("not a number"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.add("pax", "99 path=a\n", 'x'); }),
              HasSubstr("damaged"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.pax("path", "a"); }), HasSubstr("no member after"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.add("", "a"); }), HasSubstr("no valid name"));
  EXPECT_THAT(error([](TarWriter& tar) { tar.add("x", std::string(1 << 21, ' '), 'x'); }),
              HasSubstr("2097152 bytes"));
  EXPECT_THAT(error([](TarWriter& tar) {
                TarWriter::Block block = TarWriter::header("a", 0);
                std::memset(block.data() + 124, '\x80', 1);
                std::memset(block.data() + 125, '\x7f', 11);
                TarWriter::seal(block);
                tar.raw(block);
              }),
              HasSubstr("not a number"));
}

TEST(Tar, ZipAndCpioAreRecognizedByHeaderNotMemberName) {
  for (const std::string start : {"PK\3\4", "070701", "070707"})
    EXPECT_THAT(members(start + std::string(2000, '0')),
                ElementsAre(HasSubstr("it is a zip or cpio archive; pack the files as .tar")));
  EXPECT_THAT(members("PL" + std::string(2000, '0')), ElementsAre(HasSubstr("no tar header")));
  TarWriter tar;
  tar.add("070701.jpg", "image");
  EXPECT_THAT(members(tar), ElementsAre("070701.jpg=image"));
}

TEST(Tar, IgnoresGlobalPaxComment) {
  TarWriter tar;
  tar.pax("comment", "0123abcd", 'g');
  tar.add("a", "1");
  EXPECT_THAT(members(tar), ElementsAre("a=1"));
}

TEST(Tar, GlobalPaxHeaderNeedsNoFollowingMember) {
  TarWriter tar;
  tar.add("a", "1");
  tar.pax("comment", "0123abcd", 'g');
  EXPECT_THAT(members(tar), ElementsAre("a=1"));
  TarWriter empty;
  empty.pax("comment", "0123abcd", 'g');
  EXPECT_THAT(members(empty), ElementsAre());
  TarWriter both;
  both.pax("path", "a");
  both.pax("comment", "0123abcd", 'g');
  EXPECT_THAT(members(both), ElementsAre(HasSubstr("no member after")));
  TarWriter cut;
  cut.pax("comment", "0123abcd", 'g');
  EXPECT_THAT(members(cut.bytes()), ElementsAre(HasSubstr("without the blocks")));
}

}  // namespace
}  // namespace slipstream
