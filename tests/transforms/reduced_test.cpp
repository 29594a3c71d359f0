#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/op_runner.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

static_assert(Shrinks<RandomResizedCrop> && Shrinks<Resize>);
static_assert(!Shrinks<CenterCrop> && !Shrinks<RandomCrop>);

TEST(ReducedDecoding, ReductionKeepsAtLeastTheOutputSize) {
  const auto reduction = [](const Region& region) {
    return RandomResizedCrop{{10, 20}}.reduction({region, 900, 900});
  };
  EXPECT_EQ(reduction({0, 0, 20, 40}), 2);
  EXPECT_EQ(reduction({0, 0, 19, 40}), 1);
  EXPECT_EQ(reduction({0, 0, 20, 39}), 1);
  EXPECT_EQ(reduction({5, 6, 80, 900}), 8);
  EXPECT_EQ(reduction({0, 0, 5, 5}), 1);
  const AnyOp resize = Resize{{10, 20}};
  EXPECT_EQ(resize.window({}, {41, 900, 3}), (Window{{0, 0, 41, 900}, 4}));
  const AnyOp crop = CenterCrop{{10, 20}};
  EXPECT_EQ(crop.window({}, {410, 900, 3}), (Window{{200, 440, 10, 20}, 1}));
}

constexpr std::int64_t kReducedHeight = 203;
constexpr std::int64_t kReducedWidth = 301;

/// Returns a slope; each of its pixels is the mean of `reduction` x `reduction` pixels of the
/// original.
Pixels<std::uint8_t> slope(const Window& window) {
  const std::int64_t n = window.reduction;
  const Region& region = window.region;
  Pixels<std::uint8_t> image{
      DType::uint8, {(region.height + n - 1) / n, (region.width + n - 1) / n, 3}, {}};
  for (std::int64_t y = 0; y < image.shape[0]; ++y) {
    for (std::int64_t x = 0; x < image.shape[1]; ++x) {
      const double across = 0.5 * static_cast<double>(2 * (region.left + x * n) + n);
      const double down = 0.5 * static_cast<double>(2 * (region.top + y * n) + n);
      for (const double level : {across * 0.8, down, (across + down) * 0.5}) {
        image.values.push_back(static_cast<std::uint8_t>(level + 0.5));
      }
    }
  }
  return image;
}

/// Returns the largest difference without the border, where the filter has pixels only on one side.
int largest_difference_inside(const Pixels<std::uint8_t>& a, const Pixels<std::uint8_t>& b) {
  int largest = 0;
  for (std::int64_t y = 2; y < a.shape[0] - 2; ++y) {
    for (std::int64_t x = 2; x < a.shape[1] - 2; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        largest = std::max(largest, std::abs(a.at(y, x, c) - b.at(y, x, c)));
      }
    }
  }
  return largest;
}

TEST(ReducedDecoding, CropsOfReducedImagesMatchTheWholeImage) {
  const Window all{{0, 0, kReducedHeight, kReducedWidth}};
  const auto whole = slope(all);
  const RandomResizedCrop op{{9, 11}, {0.3, 1}};
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const DrawnCrop drawn = op.draw(make_key(sample), whole.shape);
    const auto exact = applied<std::uint8_t>(op, drawn, FieldKind::image, whole);
    for (const std::int64_t n : {2, 4, 8}) {
      const Region& crop = drawn.region;
      const std::int64_t top = crop.top / n * n;
      const std::int64_t left = crop.left / n * n;
      const Region around = {top, left, crop.top + crop.height - top,
                             crop.left + crop.width - left};
      for (const Window& window : {Window{all.region, n}, Window{around, n}}) {
        const auto reduced =
            applied<std::uint8_t>(op, op.within(drawn, window), FieldKind::image, slope(window));
        ASSERT_LE(largest_difference_inside(reduced, exact), 1 + n / 4) << sample << " by " << n;
      }
    }
  }
}

TEST(ReducedDecoding, ResizeOfReducedImagesMatchesTheWholeImage) {
  const Window all{{0, 0, kReducedHeight, kReducedWidth}};
  const auto whole = slope(all);
  const Resize op{{13, 12}};
  const auto drawn = op.draw({}, whole.shape);
  const auto exact = applied<std::uint8_t>(op, drawn, FieldKind::image, whole);
  for (const std::int64_t n : {2, 4, 8}) {
    const Window window{all.region, n};
    const auto reduced =
        applied<std::uint8_t>(op, op.within(drawn, window), FieldKind::image, slope(window));
    EXPECT_LE(largest_difference_inside(reduced, exact), 1 + n / 4) << n;
  }
}

TEST(ReducedDecoding, ReductionToTheOutputSizeIsACopy) {
  const auto half = counted_image(6, 8);
  const DrawnCrop drawn = DrawnCrop{{4, 2, 8, 10}, 12, 16}.within({{0, 0, 12, 16}, 2});
  EXPECT_EQ(applied<std::uint8_t>(RandomResizedCrop{{4, 5}}, drawn, FieldKind::image, half),
            applied<std::uint8_t>(CenterCrop{{4, 5}}, DrawnCrop{{2, 1, 4, 5}, 6, 8},
                                  FieldKind::image, half));
}

TEST(ReducedDecoding, FieldOfAnotherSizeThrows) {
  const DrawnCrop drawn = DrawnCrop{{4, 2, 8, 10}, 13, 15}.within({{0, 0, 13, 15}, 2});
  const auto error = [&](std::int64_t height, std::int64_t width) {
    return thrown_by([&] {
      applied<std::uint8_t>(RandomResizedCrop{{4, 5}}, drawn, FieldKind::image,
                            counted_image(height, width));
    });
  };
  EXPECT_EQ(error(7, 8), "nothing");
  EXPECT_THAT(error(6, 8), HasSubstr("a field is 6 x 8 pixels"));
  EXPECT_THAT(error(7, 7), HasSubstr("a field is 7 x 7 pixels"));
}

}  // namespace
}  // namespace slipstream
