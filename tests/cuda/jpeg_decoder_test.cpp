#include "cuda/jpeg_decoder.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

#include "cuda/device_buffer.h"
#include "cuda/nvjpeg.h"
#include "gpu.h"
#include "slipstream/codecs/image.h"
#include "support/difference.h"
#include "support/jpeg_set.h"

#if __has_include(<nvjpeg.h>)
#include <nvjpeg.h>
#endif

namespace slipstream::cuda {
namespace {

using test::DeviceBuffer;
using testing::ElementsAre;
using testing::IsEmpty;
using Bytes = std::vector<std::byte>;
using Colors = JpegKind::Colors;

#if __has_include(<nvjpeg.h>)
static_assert(nvjpeg::kSuccess == NVJPEG_STATUS_SUCCESS);
static_assert(nvjpeg::kGpuHybrid == NVJPEG_BACKEND_GPU_HYBRID);
static_assert(nvjpeg::kHardware == NVJPEG_BACKEND_HARDWARE);
static_assert(nvjpeg::kUpsamplingWithInterpolation == NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION);
static_assert(nvjpeg::kOutputRgbi == NVJPEG_OUTPUT_RGBI);
static_assert(sizeof(nvjpeg::Image) == sizeof(nvjpegImage_t));
static_assert(offsetof(nvjpeg::Image, pitch) == offsetof(nvjpegImage_t, pitch));
static_assert(sizeof(nvjpeg::Allocator) == sizeof(nvjpegDevAllocatorV2_t));
static_assert(sizeof(nvjpeg::Allocator) == sizeof(nvjpegPinnedAllocatorV2_t));
static_assert(offsetof(nvjpeg::Allocator, free) == offsetof(nvjpegDevAllocatorV2_t, dev_free));
static_assert(offsetof(nvjpeg::Allocator, context) == offsetof(nvjpegDevAllocatorV2_t, dev_ctx));
#endif

/// A file and its pixels, as decoded by libjpeg-turbo.
struct Decoded {
  std::string what;
  Bytes file;
  Shape shape;
  Bytes pixels;
};

Decoded decode_on_host(std::string what, Bytes file) {
  HostArray image;
  decode_rgb(file, {}, image);
  const ConstArray view = image.view();
  return {std::move(what), std::move(file), view.shape, {view.data, view.data + view.bytes()}};
}

Decoded make_jpeg(const JpegKind& kind, std::int64_t height, std::int64_t width,
                  std::uint32_t seed = 1) {
  auto levels = photo_levels(seed, height, width);
  const bool is_gray = kind.colors == Colors::gray;
  if (is_gray) {
    for (std::size_t i = 0; i < levels.size() / 3; ++i) levels[i] = levels[3 * i];
    levels.resize(levels.size() / 3);
  }
  return decode_on_host(
      (is_gray ? "gray"
               : "luma " + std::to_string(kind.across) + " x " + std::to_string(kind.down)) +
          ", " + std::to_string(height) + " x " + std::to_string(width) + ", quality " +
          std::to_string(kind.quality) + (kind.restart_rows > 0 ? ", restarts" : ""),
      write_jpeg(kind, height, width, levels));
}

/// The parameter is true for the JPEG engines, if the GPU has them, and false for CUDA kernels.
class JpegDecoderGpuTest : public test::GpuTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    try {
      make(64);
    } catch (const Refused& refused) {
      if (test::gpu_is_required()) FAIL() << refused.what();
      GTEST_SKIP() << refused.what();
    }
    std::printf("decoded by %s\n", decoder_->uses_engines() ? "engines" : "CUDA kernels");
    if (GetParam() && !decoder_->uses_engines()) {
      GTEST_SKIP() << "this GPU has no JPEG engines, or the driver no libnvcuvid.so.1";
    }
  }

  void make(std::size_t batch_size) {
    decoder_.reset();
    decoder_ = std::make_unique<JpegDecoder>(JpegDecoder::Options{
        .batch_size = batch_size, .may_use_engines = GetParam(), .libraries = {}});
  }

  /// Decodes one batch on a new stream, which is busy for `delay_us` before. Images that could not
  /// be decoded are empty in the result.
  std::vector<Bytes> decode(const std::vector<Decoded>& files, double delay_us = 0) {
    std::vector<std::unique_ptr<DeviceBuffer<std::byte>>> memory;
    std::vector<JpegImage> images;
    for (const Decoded& each : files) {
      const auto bytes = static_cast<std::size_t>(3 * each.shape[0] * each.shape[1]);
      memory.push_back(std::make_unique<DeviceBuffer<std::byte>>(bytes + kGuard, kFill));
      images.push_back({each.file, each.shape[0], each.shape[1], memory.back()->get()});
    }
    const Stream stream(0);
    if (delay_us > 0) delay_async(delay_us, stream);
    const auto refused = decoder_->decode_async(images, stream);
    failed_.assign(refused.begin(), refused.end());
    // Copied on the stream, so that nothing but the stream's order guarantees that the pixels are
    // ready.
    std::vector<Bytes> pixels;
    for (const auto& each : memory) pixels.emplace_back(each->bytes());
    for (std::size_t i = 0; i < memory.size(); ++i) {
      check_cuda(cudaMemcpyAsync(pixels[i].data(), memory[i]->get(), memory[i]->bytes(),
                                 cudaMemcpyDeviceToHost, stream.get()));
    }
    stream.synchronize();
    for (Bytes& each : pixels) {
      for (std::size_t i = each.size() - kGuard; i < each.size(); ++i) {
        EXPECT_EQ(std::to_integer<int>(each[i]), kFill) << "written beyond the end of the image";
      }
      each.resize(each.size() - kGuard);
    }
    for (const std::size_t index : failed_) pixels[index].clear();
    return pixels;
  }

  static constexpr int kFill = 0xa5;
  static constexpr std::size_t kGuard = 256;
  std::unique_ptr<JpegDecoder> decoder_;
  std::vector<std::size_t> failed_;
};

TEST_P(JpegDecoderGpuTest, PixelsAreCloseToLibjpegTurbo) {
  std::vector<Decoded> files;
  for (const int quality : {60, 90, 98}) {
    for (const int across : {1, 2}) {
      for (const int down : {1, 2}) {
        const JpegKind kind = {.across = across, .down = down, .quality = quality};
        files.push_back(make_jpeg(kind, 375, 500));
        files.push_back(make_jpeg(kind, 97, 131));
        files.push_back(make_jpeg(kind, 64, 48));
      }
    }
    files.push_back(make_jpeg({.colors = Colors::gray, .quality = quality}, 375, 501));
  }
  files.push_back(make_jpeg({.across = 2, .down = 2, .restart_rows = 1}, 200, 300));
  const auto pixels = decode(files);
  EXPECT_THAT(failed_, IsEmpty());
  for (std::size_t i = 0; i < files.size(); ++i) {
    ASSERT_FALSE(pixels[i].empty()) << files[i].what << " was not decoded";
    const test::Difference difference = test::difference(pixels[i], files[i].pixels);
    std::printf("%s: mean %.4f, most %d\n", files[i].what.c_str(), difference.mean,
                difference.most);
    EXPECT_LE(difference.mean, 1.0) << files[i].what;
    EXPECT_LE(difference.most, 12) << files[i].what;
  }
}

TEST_P(JpegDecoderGpuTest, SmallAndOddSizesAreDecodedCorrectlyOrRefused) {
  for (const std::int64_t height : {1, 2, 7, 8, 9, 16, 17, 33}) {
    std::vector<Decoded> files;
    for (const std::int64_t width : {1, 2, 7, 8, 9, 15, 16, 17, 31, 65}) {
      files.push_back(make_jpeg({.across = 2, .down = 2}, height, width));
      files.push_back(make_jpeg({.across = 1, .down = 1}, height, width));
    }
    const auto pixels = decode(files);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (pixels[i].empty()) {
        std::printf("%s: refused\n", files[i].what.c_str());
        continue;
      }
      const test::Difference difference = test::difference(pixels[i], files[i].pixels);
      EXPECT_LE(difference.mean, 3.0) << files[i].what;
      EXPECT_LE(difference.most, 40) << files[i].what;
    }
  }
}

TEST_P(JpegDecoderGpuTest, PixelsDoNotDependOnBatchExceptForKernelRounding) {
  std::vector<Decoded> files;
  for (std::uint32_t i = 0; i < 64; ++i) {
    files.push_back(
        make_jpeg({.across = 1 + static_cast<int>(i % 2), .down = 1}, 40 + i, 150 - i, i));
  }
  const auto together = decode(files);
  EXPECT_THAT(failed_, IsEmpty());
  for (std::size_t i = 0; i < files.size(); i += 9) {
    const auto alone = decode({files[i]}).front();
    // The kernels round differently depending on the other images in the batch.
    EXPECT_LE(test::difference(alone, together[i]).most, GetParam() ? 0 : 4) << files[i].what;
  }
}

TEST_P(JpegDecoderGpuTest, LaterWorkOnStreamSeesDecodedPixels) {
  const std::vector<Decoded> files = {make_jpeg({.across = 2, .down = 2}, 375, 500, 3),
                                      make_jpeg({}, 200, 100, 4)};
  const auto expected = decode(files);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(decode(files, i % 2 == 0 ? 0 : 5000), expected) << "batch " << i;
  }
}

TEST_P(JpegDecoderGpuTest, BatchesEnqueuedWithoutWaitingDoNotOverwriteEachOther) {
  constexpr std::size_t kBatches = 12;
  constexpr std::size_t kImages = 16;
  std::vector<std::vector<Decoded>> batches(kBatches);
  std::vector<std::vector<Bytes>> expected;
  for (std::size_t b = 0; b < kBatches; ++b) {
    for (std::size_t i = 0; i < kImages; ++i) {
      const auto seed = static_cast<std::uint32_t>(b * kImages + i);
      batches[b].push_back(make_jpeg({.across = 2, .down = 2}, 120, 160, seed));
    }
    expected.push_back(decode(batches[b]));
  }
  constexpr std::size_t kBytes = 120 * 160 * 3;
  const DeviceBuffer<std::byte> memory(kBatches * kImages * kBytes);
  const Stream stream(0);
  for (std::size_t b = 0; b < kBatches; ++b) {
    std::vector<JpegImage> images;
    for (std::size_t i = 0; i < kImages; ++i) {
      images.push_back({batches[b][i].file, 120, 160, memory.get() + (b * kImages + i) * kBytes});
    }
    EXPECT_THAT(decoder_->decode_async(images, stream), IsEmpty());
  }
  stream.synchronize();
  const Bytes all = memory.read();
  for (std::size_t b = 0; b < kBatches; ++b) {
    for (std::size_t i = 0; i < kImages; ++i) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>((b * kImages + i) * kBytes);
      EXPECT_TRUE(std::equal(from, from + kBytes, expected[b][i].begin()))
          << "batch " << b << ", image " << i;
    }
  }
}

TEST_P(JpegDecoderGpuTest, UndecodableFilesAreListedAndOthersAreDecoded) {
  const Decoded good = make_jpeg({.across = 2, .down = 2}, 100, 120);
  Decoded junk = good;
  for (std::size_t i = 2; i < junk.file.size(); ++i) junk.file[i] = static_cast<std::byte>(i * 37);
  Decoded other_size = good;
  other_size.shape = {99, 120, 3};
  Decoded empty = good;
  empty.file.resize(2);
  const auto pixels = decode({good, junk, good, other_size, empty, good});
  EXPECT_THAT(failed_, ElementsAre(1, 3, 4));
  const Bytes alone = decode({good}).front();
  for (const std::size_t index : {0, 2, 5}) EXPECT_EQ(pixels[index], alone) << index;
}

TEST_P(JpegDecoderGpuTest, UnusualJpegKindsAreDecodedCorrectlyOrRefused) {
  const Decoded good = make_jpeg({.across = 2, .down = 2}, 100, 120);
  const Bytes expected = decode({good}).front();
  const std::vector<Decoded> others = {
      make_jpeg({.across = 2, .down = 2, .is_progressive = true}, 100, 120),
      make_jpeg({.across = 2, .down = 2, .is_arithmetic = true}, 100, 120),
      make_jpeg({.across = 2, .down = 2, .has_scan_each = true}, 100, 120),
      make_jpeg({.colors = Colors::gray}, 100, 120)};
  for (const Decoded& other : others) {
    const auto pixels = decode({good, other, good});
    EXPECT_EQ(pixels[0], expected) << other.what;
    EXPECT_EQ(pixels[2], expected) << other.what;
    std::printf("%s: %s\n", other.what.c_str(), pixels[1].empty() ? "refused" : "decoded");
    if (!pixels[1].empty()) {
      EXPECT_LE(test::difference(pixels[1], other.pixels).mean, 1.0) << other.what;
    }
  }
}

TEST_P(JpegDecoderGpuTest, DamagedFileLeavesDecoderUsable) {
  const Decoded good = make_jpeg({.across = 2, .down = 2}, 100, 120);
  const Bytes expected = decode({good}).front();
  for (std::size_t part = 2; part < 8; ++part) {
    // so that the damaged file is the largest so far
    const auto more = static_cast<std::int64_t>(part);
    Decoded damaged = make_jpeg({.across = 2, .down = 2}, 100 + more, 120);
    const std::size_t at = damaged.file.size() * part / 8;
    for (std::size_t i = at; i < at + 20; ++i) damaged.file[i] = static_cast<std::byte>(i * 91);
    std::vector<Decoded> files(40, good);
    files[part % 2 == 0 ? 1 : 38] = damaged;
    const auto pixels = decode(files);
    std::printf("damaged at %zu/8: %s\n", part, failed_.empty() ? "unnoticed" : "refused");
    for (const std::size_t i : {0, 2, 31, 32, 37, 39}) EXPECT_EQ(pixels[i], expected) << part;
    EXPECT_EQ(decode({good}).front(), expected) << "after " << part;
  }
}

TEST_P(JpegDecoderGpuTest, RepeatedBatchesAllocateNothingAfterWarmup) {
  make(8);
  std::vector<Decoded> files;
  for (std::uint32_t i = 0; i < 8; ++i)
    files.push_back(make_jpeg({.across = 2, .down = 2}, 200, 300, i));
  for (int i = 0; i < 8; ++i) decode(files);
  const std::uint64_t before = decoder_->allocations();
  std::printf("allocations while warming up: %llu\n", static_cast<unsigned long long>(before));
  for (int i = 0; i < 40; ++i) decode(files);
  EXPECT_EQ(decoder_->allocations(), before);
}

class JpegEnginesGpuTest : public JpegDecoderGpuTest {};

INSTANTIATE_TEST_SUITE_P(By, JpegEnginesGpuTest, testing::Values(true),
                         [](const auto&) { return std::string("Engines"); });

TEST_P(JpegEnginesGpuTest, DecodingDoesNotWaitForOtherStreams) {
  ASSERT_TRUE(decoder_->uses_engines());
  const Decoded large = make_jpeg({.across = 2, .down = 2}, 375, 500);
  std::vector<Decoded> files(40, make_jpeg({.across = 2, .down = 2}, 100, 120));
  files[20] = large;
  for (int i = 0; i < 2; ++i) decode(files);
  const auto bytes = static_cast<std::size_t>(3 * large.shape[0] * large.shape[1]);
  const DeviceBuffer<std::byte> memory(40 * bytes);
  std::vector<JpegImage> images;
  for (std::size_t i = 0; i < 40; ++i) {
    images.push_back({large.file, large.shape[0], large.shape[1], memory.get() + i * bytes});
  }
  const Stream other(0);
  const Stream stream(0);
  delay_async(3e6, other);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(decoder_->decode_async(images, stream), IsEmpty());
  EXPECT_EQ(cudaStreamQuery(other.get()), cudaErrorNotReady) << "decoding waited for it";
  stream.synchronize();
  EXPECT_EQ(cudaStreamQuery(other.get()), cudaErrorNotReady) << "decoding waited for it";
  other.synchronize();
}

TEST_P(JpegDecoderGpuTest, BatchesOfEverySizeAreDecoded) {
  make(256);
  const Decoded one = make_jpeg({.across = 2, .down = 1}, 60, 80);
  const Bytes expected = decode({one}).front();
  for (const std::size_t count : {256, 1, 51, 49, 2, 255}) {
    const auto pixels = decode(std::vector<Decoded>(count, one));
    ASSERT_EQ(failed_.size(), 0U) << count;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(pixels[i], expected) << count << ", " << i;
  }
  EXPECT_THAT(decode({}), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(By, JpegDecoderGpuTest, testing::Values(true, false),
                         [](const auto& by) { return by.param ? "Engines" : "Kernels"; });

}  // namespace
}  // namespace slipstream::cuda
