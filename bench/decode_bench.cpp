// What decoding the part that a random resized crop reads saves: a photo-like 500 x 375 JPEG to
// 224 x 224, decoded whole and in part.
#include <benchmark/benchmark.h>

#include "slipstream/image.h"
#include "slipstream/transforms.h"

namespace slipstream {
namespace {

constexpr std::int64_t kHeight = 375;
constexpr std::int64_t kWidth = 500;

// Smooth areas with some texture: about the 100 KB that photos of this size have.
std::vector<std::byte> photo() {
  std::vector<std::byte> levels;
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < kHeight * kWidth * 3; ++i) {
    state = state * 1664525 + 1013904223;
    const std::int64_t x = i / 3 % kWidth;
    const std::int64_t y = i / 3 / kWidth;
    const std::int64_t level = x / 4 + y / 5 + (x / 40 + y / 30) % 2 * 30 + (state >> 28);
    levels.push_back(static_cast<std::byte>(level));
  }
  return encode_jpeg({levels.data(), DType::u8, {kHeight, kWidth, 3}}, 90);
}

void decode_and_crop(benchmark::State& state, bool is_partial, bool has_resize) {
  const std::vector<std::byte> file = photo();
  const RandomResizedCrop op{224, 224};
  const Shape shape = {kHeight, kWidth, 3};
  HostArray image;
  HostArray out;
  Scratch scratch;
  std::uint64_t sample = 0;
  for (auto _ : state) {
    DrawnCrop drawn = op.draw({.sample = sample++ % 1000}, shape);
    if (is_partial) {
      const Region part = op.region(drawn);
      if (!decode_rgb_region(file, {}, part, image)) state.SkipWithError("decoded whole");
      drawn = op.within(drawn, part);
    } else {
      decode_rgb(file, {}, image);
    }
    if (!has_resize) continue;
    op.apply(drawn, FieldKind::image, image.view(), out.reset(DType::u8, {224, 224, 3}), scratch);
  }
  state.counters["file_bytes"] = static_cast<double>(file.size());
}

void resize(benchmark::State& state) {
  const RandomResizedCrop op{224, 224};
  HostArray image;
  decode_rgb(photo(), {}, image);
  HostArray out;
  Scratch scratch;
  std::uint64_t sample = 0;
  for (auto _ : state) {
    op.apply(op.draw({.sample = sample++ % 1000}, image.view().shape), FieldKind::image,
             image.view(), out.reset(DType::u8, {224, 224, 3}), scratch);
  }
}

BENCHMARK(resize)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, whole_decode, false, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, part_decode, true, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, whole_with_resize, false, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, part_with_resize, true, true)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace slipstream

BENCHMARK_MAIN();
