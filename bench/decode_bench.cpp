// Measures the time saved by decoding only the part that a random resized crop reads. A photo-like
// JPEG of 500 x 375 is converted to 224 x 224, decoded whole and in part; and to 112 x 112, decoded
// in part at full size and at a fraction of its size.
#include <benchmark/benchmark.h>

#include "slipstream/codecs/image.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {
namespace {

constexpr std::int64_t kHeight = 375;
constexpr std::int64_t kWidth = 500;

// Smooth areas with some texture: the file has about 100 KB, as photos of this size do.
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
  return encode_jpeg({levels.data(), DType::uint8, {kHeight, kWidth, 3}}, 90);
}

void decode_and_crop(benchmark::State& state, const DecodeOptions& options, std::int64_t side,
                     bool has_resize) {
  const std::vector<std::byte> file = photo();
  const RandomResizedCrop op{side};
  const Shape shape = {kHeight, kWidth, 3};
  HostArray image;
  HostArray out;
  Scratch scratch;
  std::uint64_t sample = 0;
  for (auto _ : state) {
    DrawnCrop drawn = op.draw({.sample = sample++ % 1000}, shape);
    if (options.partial) {
      const std::int64_t reduction = options.scaled ? op.reduction(drawn) : 1;
      const auto held = decode_rgb_window(file, options, {op.region(drawn), reduction}, image);
      drawn = op.within(drawn, held.value());
    } else {
      decode_rgb(file, options, image);
    }
    if (!has_resize) continue;
    op.apply(drawn, FieldKind::image, image.view(), out.reset(DType::uint8, {side, side, 3}),
             scratch);
  }
  state.counters["file_bytes"] = static_cast<double>(file.size());
}

void resize(benchmark::State& state) {
  const RandomResizedCrop op{224};
  HostArray image;
  decode_rgb(photo(), {}, image);
  HostArray out;
  Scratch scratch;
  std::uint64_t sample = 0;
  for (auto _ : state) {
    op.apply(op.draw({.sample = sample++ % 1000}, image.view().shape), FieldKind::image,
             image.view(), out.reset(DType::uint8, {224, 224, 3}), scratch);
  }
}

constexpr DecodeOptions kWhole = {.partial = false};
constexpr DecodeOptions kPart = {};
constexpr DecodeOptions kScaled = {.scaled = true};

BENCHMARK(resize)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, whole_decode, kWhole, 224, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, part_decode, kPart, 224, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, whole_with_resize, kWhole, 224, true)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, part_with_resize, kPart, 224, true)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, part_to_112, kPart, 112, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_crop, scaled_to_112, kScaled, 112, true)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace slipstream

BENCHMARK_MAIN();
