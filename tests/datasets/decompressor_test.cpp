#include "datasets/decompressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/compressed.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kLimit = 1 << 20;

class DecompressorTest : public testing::TestWithParam<Compression> {
 protected:
  static std::string compressed(const std::string& text) {
    return GetParam() == Compression::zstd ? zstd_compressed(text) : lz4_compressed(text);
  }
  std::string run(const std::string& packed, std::size_t limit = kLimit) {
    decompressor_.run(GetParam(), std::as_bytes(std::span(packed)), limit, out_);
    const ConstArray view = out_.view();
    return {view.as<char>(), view.as<char>() + view.bytes()};
  }
  std::string error(const std::string& packed, std::size_t limit = kLimit) {
    return thrown_by([&] { run(packed, limit); });
  }

  Decompressor decompressor_;
  HostArray out_;
};

std::string noise(std::size_t bytes) {
  std::string text(bytes, '\0');
  std::uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

TEST_P(DecompressorTest, RoundTripKeepsEveryByte) {
  for (const std::size_t bytes : {0, 1, 1000, 65535, 65536, 65537, 300'000}) {
    EXPECT_EQ(run(compressed(noise(bytes))), noise(bytes)) << bytes;
    EXPECT_EQ(run(compressed(std::string(bytes, 'a'))), std::string(bytes, 'a')) << bytes;
  }
}

TEST_P(DecompressorTest, ConcatenatedFramesAreJoined) {
  EXPECT_EQ(run(compressed("one, ") + compressed("two")), "one, two");
}

TEST_P(DecompressorTest, OutputOverTheLimitThrows) {
  const std::string bomb = compressed(std::string(1 << 24, '\0'));
  EXPECT_EQ(run(compressed(std::string(kLimit, 'a'))).size(), kLimit);
  EXPECT_THAT(error(compressed(std::string(kLimit + 1, 'a'))),
              AllOf(StartsWith("Error: "), HasSubstr("more than 1048576 bytes when decompressed"),
                    HasSubstr("TarShardOptions::max_member_bytes")));
  EXPECT_THAT(error(bomb), HasSubstr("more than 1048576 bytes"));
  EXPECT_THAT(error(bomb, 10), HasSubstr("more than 10 bytes"));
}

TEST_P(DecompressorTest, LargeDataRoundTripsWithExactLimit) {
  constexpr std::size_t kLarge = 20'000'001;
  EXPECT_EQ(run(compressed(noise(kLarge)), kLarge), noise(kLarge));
  EXPECT_EQ(run(compressed(noise(kLarge)) + compressed("") + compressed("more"), 2 * kLarge),
            noise(kLarge) + "more");
  EXPECT_THAT(error(compressed(noise(kLarge)), kLarge - 1), HasSubstr("more than 20000000 bytes"));
}

TEST(Decompressor, BombWithoutDeclaredSizeThrowsBeforeAllocating) {
  const std::string bomb = zstd_streamed(std::string(1 << 20, 'a'), 160);
  Decompressor decompressor;
  HostArray out;
  const std::byte* const before = out.reset(DType::uint8, {1000}).data;
  EXPECT_THAT(thrown_by([&] {
                decompressor.run(Compression::zstd, std::as_bytes(std::span(bomb)), 128 << 20, out);
              }),
              HasSubstr("more than 134217728 bytes"));
  EXPECT_EQ(out.view().data, before);
  EXPECT_EQ(out.view().shape, Shape{1000});
}

TEST_P(DecompressorTest, TruncationAtEveryByteThrows) {
  const std::string whole = compressed(noise(500));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(error(whole.substr(0, length)), AllOf(StartsWith("Error: "), HasSubstr("damaged")))
        << length;
  }
}

TEST_P(DecompressorTest, UncompressedDataThrows) {
  EXPECT_THAT(error("some plain text"), AllOf(StartsWith("Error: "), HasSubstr("damaged")));
  EXPECT_THAT(error(compressed("text") + "tail"), StartsWith("Error: "));
}

TEST_P(DecompressorTest, DecompressesAgainAfterAnError) {
  EXPECT_NE(error(compressed(noise(500)).substr(0, 100)), "nothing");
  EXPECT_EQ(run(compressed("text")), "text");
}

INSTANTIATE_TEST_SUITE_P(Codecs, DecompressorTest,
                         testing::Values(Compression::zstd, Compression::lz4),
                         [](const auto& codec) {
                           return codec.param == Compression::zstd ? "zstd" : "lz4";
                         });

}  // namespace
}  // namespace slipstream
