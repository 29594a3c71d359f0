#include "cuda/augment/resample.h"

#include <random>

#include "cuda/device_buffer.h"
#include "gpu.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/resampling.h"

namespace slipstream::cuda {
namespace {

using test::DeviceBuffer;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kGuard = 512;  // bytes after the batch, which must stay unchanged

/// An image whose rows have `padding` unused bytes between them, and the operations to apply.
struct Picture {
  std::int64_t height, width, padding;
  Region region;
  bool flips_across = false;
  bool flips_down = false;
  Bytes pixels = {};  ///< pixels in rows without padding

  std::int64_t row_bytes() const { return 3 * width + padding; }
};

Bytes noise(std::size_t bytes, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes all(bytes);
  for (std::byte& byte : all) byte = static_cast<std::byte>(random() >> 24);
  return all;
}

template <typename Flip>
void mirror(Bytes& image, const Shape& shape) {
  const Bytes from = image;
  Scratch scratch;
  Flip{}.apply({true}, FieldKind::image, {from.data(), DType::uint8, shape},
               {image.data(), DType::uint8, shape}, scratch);
}

Bytes resample_on_host(const Picture& picture, std::int64_t height, std::int64_t width) {
  Bytes out(static_cast<std::size_t>(height * width * 3));
  const Shape shape = {height, width, 3};
  Scratch scratch;
  resample(FieldKind::image, {},
           {picture.pixels.data(), DType::uint8, {picture.height, picture.width, 3}},
           {picture.region, picture.height, picture.width}, {out.data(), DType::uint8, shape},
           scratch);
  if (picture.flips_across) mirror<RandomHorizontalFlip>(out, shape);
  if (picture.flips_down) mirror<RandomVerticalFlip>(out, shape);
  return out;
}

class ResampleGpuTest : public test::GpuTest {
 protected:
  void add(std::int64_t height, std::int64_t width, const Region& region) {
    const auto i = static_cast<std::uint32_t>(pictures_.size());
    Picture& picture = pictures_.emplace_back(Picture{height, width, i % 5, region});
    picture.flips_across = i % 2 == 1;
    picture.flips_down = i / 2 % 2 == 1;
    picture.pixels = noise(static_cast<std::size_t>(height * width * 3), i + 1);
  }
  void add_whole(std::int64_t height, std::int64_t width) {
    add(height, width, {0, 0, height, width});
  }

  /// Returns the device's result; `around` fills the memory between and beyond the regions.
  Bytes resample_on_device(std::int64_t height, std::int64_t width, std::byte around) const {
    std::size_t bytes = 0;
    for (const Picture& picture : pictures_) {
      bytes += static_cast<std::size_t>(picture.height * picture.row_bytes());
    }
    Bytes memory(bytes, around);
    std::vector<ImageSource> sources;
    std::size_t at = 0;
    const DeviceBuffer<std::byte> device(bytes);
    for (const Picture& picture : pictures_) {
      const Region& region = picture.region;
      for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
        std::copy_n(
            &picture.pixels[static_cast<std::size_t>((y * picture.width + region.left) * 3)],
            region.width * 3,
            &memory[at + static_cast<std::size_t>(y * picture.row_bytes() + 3 * region.left)]);
      }
      sources.push_back({device.get() + at, picture.row_bytes(), region,
                         picture_index(sources.size()), picture.flips_across, picture.flips_down});
      at += static_cast<std::size_t>(picture.height * picture.row_bytes());
    }
    device_write(device, memory);
    const std::size_t out_bytes = pictures_.size() * static_cast<std::size_t>(height * width * 3);
    const DeviceBuffer<std::byte> to(out_bytes + kGuard, 0xa5);
    const DeviceBuffer<std::byte> scratch(resample_scratch_bytes(sources, height, width), 0x5a);
    const Stream stream(0);
    resample_async(sources, height, width, scratch.get(), to.get(), stream);
    stream.synchronize();
    Bytes result = to.read();
    for (std::size_t i = out_bytes; i < result.size(); ++i) {
      EXPECT_EQ(result[i], std::byte{0xa5}) << "written beyond the end of the batch";
    }
    result.resize(out_bytes);
    return result;
  }

  void expect_matches_host(std::int64_t height, std::int64_t width) const {
    const Bytes result = resample_on_device(height, width, std::byte{0});
    const auto bytes = static_cast<std::ptrdiff_t>(height * width * 3);
    for (std::size_t i = 0; i < pictures_.size(); ++i) {
      const Bytes expected = resample_on_host(pictures_[i], height, width);
      const auto from = result.begin() + static_cast<std::ptrdiff_t>(picture_index(i)) * bytes;
      const auto [mine, wanted] = std::mismatch(from, from + bytes, expected.begin());
      const std::ptrdiff_t at = mine - from;
      ASSERT_EQ(at, bytes) << pictures_[i].region.height << " x " << pictures_[i].region.width
                           << " to " << height << " x " << width << ", row " << at / (3 * width)
                           << ", column " << at / 3 % width << ", channel " << at % 3 << ": is "
                           << std::to_integer<int>(*mine) << ", should be "
                           << std::to_integer<int>(*wanted) << "; flips "
                           << pictures_[i].flips_across << pictures_[i].flips_down;
    }
  }

  std::vector<Picture> pictures_;

 private:
  std::size_t picture_index(std::size_t i) const { return (i * 7 + 3) % pictures_.size(); }
  static void device_write(const DeviceBuffer<std::byte>& device, const Bytes& memory) {
    check_cuda(cudaMemcpy(device.get(), memory.data(), memory.size(), cudaMemcpyHostToDevice));
  }
};

TEST_F(ResampleGpuTest, MatchesHostForAllSmallSizes) {
  for (std::int64_t in = 1; in <= 70; ++in) {
    // keeps the number from becoming a multiple of 7, which picture_index() requires
    if (pictures_.size() % 7 == 6) add_whole(1, 1);
    add_whole(in, in * 11 % 70 + 1);
  }
  for (std::int64_t out = 1; out <= 70; ++out) {
    expect_matches_host(out, out * 27 % 70 + 1);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ResampleGpuTest, MatchesHostForRandomRegions) {
  std::mt19937 random(5);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(to - from + 1));
  };
  for (int i = 0; i < 130; ++i) {
    const std::int64_t height = draw(20, 300);
    const std::int64_t width = draw(20, 300);
    const Region region = {draw(0, height - 5), draw(0, width - 5), 0, 0};
    add(height, width,
        {region.top, region.left, draw(1, height - region.top), draw(1, width - region.left)});
  }
  expect_matches_host(64, 48);
  expect_matches_host(224, 224);
}

TEST_F(ResampleGpuTest, MatchesHostForLargeAndElongatedImages) {
  add_whole(2000, 3001);
  add_whole(375, 500);
  add_whole(7, 5);
  add_whole(1, 4000);
  add_whole(4000, 1);
  expect_matches_host(224, 224);
  expect_matches_host(1, 1);
  expect_matches_host(301, 777);
}

TEST_F(ResampleGpuTest, RegionOfOutputSizeIsCopied) {
  for (int i = 0; i < 8; ++i) add(40, 50, {i, 2 * i, 31, 33});
  expect_matches_host(31, 33);
}

TEST_F(ResampleGpuTest, PixelsOutsideRegionDoNotAffectResult) {
  for (int i = 0; i < 12; ++i) add(60, 70, {5 + i, 3 + 2 * i, 20 + i, 30});
  EXPECT_EQ(resample_on_device(32, 17, std::byte{0}), resample_on_device(32, 17, std::byte{255}));
}

TEST_F(ResampleGpuTest, EmptyImageListDoesNothing) {
  const Stream stream(0);
  EXPECT_EQ(resample_scratch_bytes({}, 8, 8), 0U);
  resample_async({}, 8, 8, nullptr, nullptr, stream);
  stream.synchronize();
}

}  // namespace
}  // namespace slipstream::cuda
