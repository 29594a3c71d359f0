#include "transforms/batch_chain.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "slipstream/core/philox.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Fields = std::vector<FieldSpec>;

FieldSpec image(DType dtype = DType::float32, std::int64_t height = 32, std::int64_t width = 48) {
  return {"photo", FieldKind::image, dtype, {height, width, 3}, 0};
}

FieldSpec label(std::int64_t classes = 10) {
  return {"class", FieldKind::label, DType::uint8, {}, classes};
}

BatchChain mixup(double alpha, std::uint32_t operation = 0) {
  return {{.mixup = MixUp{alpha}}, operation, {image(), label()}};
}

BatchChain cutmix(double alpha, std::uint32_t operation = 0, std::int64_t height = 32,
                  std::int64_t width = 48) {
  return {{.cutmix = CutMix{alpha}}, operation, {image(DType::float32, height, width), label()}};
}

// The values were computed by a Python program, from docs/random.md.
TEST(BatchChain, MatchesGoldenValues) {
  EXPECT_EQ(mixup(1).draw(1, 0, 0).own, 0x1.6c4156p-2F);
  EXPECT_EQ(mixup(0.2).draw(1, 0, 1).own, 0x1.fffffcp-1F);
  EXPECT_EQ(mixup(2.5, 63).draw(0x123456789ABCDEF0, 0xFEDCBA987654, 7).own, 0x1.ad63c2p-1F);

  struct Box {
    float own;
    std::int32_t top, left, bottom, right;
  };
  constexpr Box kBoxes[] = {{0x1.315556p-1F, 0, 17, 20, 48},
                            {0x1.55p-1F, 0, 21, 19, 48},
                            {0x1.9ep-1F, 18, 0, 32, 21},
                            {0x1.66aaaap-1F, 12, 25, 32, 48}};
  for (std::uint32_t place = 0; place < 4; ++place) {
    const DrawnMix drawn = cutmix(1, 2).draw(1, 5, place);
    const Box& box = kBoxes[place];
    EXPECT_EQ(drawn.own, box.own) << place;
    EXPECT_EQ(drawn.other, 1 - box.own) << place;
    EXPECT_EQ(drawn.top, box.top) << place;
    EXPECT_EQ(drawn.left, box.left) << place;
    EXPECT_EQ(drawn.bottom, box.bottom) << place;
    EXPECT_EQ(drawn.right, box.right) << place;
  }
}

TEST(BatchChain, EveryKeyFieldChangesTheShare) {
  const float own = mixup(1).draw(1, 2, 3).own;
  EXPECT_EQ(mixup(1).draw(1, 2, 3).own, own);
  EXPECT_NE(mixup(1).draw(2, 2, 3).own, own);
  EXPECT_NE(mixup(1).draw(1, 3, 3).own, own);
  EXPECT_NE(mixup(1).draw(1, 2, 4).own, own);
  EXPECT_NE(mixup(1, 1).draw(1, 2, 3).own, own);
}

/// Returns the largest distance between the empirical and the expected distribution of shares.
double distance(double alpha, const std::function<double(double)>& distribution) {
  constexpr std::uint64_t kDraws = 40'000;
  const BatchChain chain = mixup(alpha);
  std::vector<double> drawn;
  for (std::uint64_t i = 0; i < kDraws; ++i)
    drawn.push_back(static_cast<double>(chain.draw(3, i / 8, i % 8).own));
  std::sort(drawn.begin(), drawn.end());
  double largest = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double share = (static_cast<double>(i) + 0.5) / kDraws;
    largest = std::max(largest, std::abs(share - distribution(drawn[i])));
  }
  return largest;
}

// Kolmogorov's bound, which a correct sampler exceeds with a probability of 0.1 %: 1.95 /
// sqrt(40,000).
TEST(BatchChain, MixUpSharesFollowTheBetaDistribution) {
  constexpr double kBound = 0.00975;
  const double pi = std::acos(-1.0);
  EXPECT_LT(distance(1, [](double x) { return x; }), kBound);
  EXPECT_LT(distance(0.5, [&](double x) { return 2 / pi * std::asin(std::sqrt(x)); }), kBound);
  EXPECT_LT(distance(2, [](double x) { return x * x * (3 - 2 * x); }), kBound);
  EXPECT_LT(distance(3, [](double x) { return x * x * x * (10 - 15 * x + 6 * x * x); }), kBound);
  EXPECT_GT(distance(2, [](double x) { return x; }), kBound);
}

TEST(BatchChain, ExtremeAlphasGiveSharesFromZeroToOne) {
  for (const double alpha : {1e-300, 1e-3, 0.1, 1000.0}) {
    const BatchChain chain = mixup(alpha);
    for (std::uint64_t batch = 0; batch < 2000; ++batch) {
      const DrawnMix drawn = chain.draw(1, batch, 0);
      ASSERT_GE(drawn.own, 0);
      ASSERT_LE(drawn.own, 1);
      ASSERT_EQ(drawn.other, 1 - drawn.own);
      if (alpha == 1e-300) {
        ASSERT_TRUE(drawn.own == 0 || drawn.own == 1) << drawn.own;
      }
      if (alpha == 1000) {
        ASSERT_NEAR(drawn.own, 0.5, 0.06);
      }
    }
  }
}

TEST(BatchChain, CutMixBoxesAreInsideTheImageAndSharesFollowArea) {
  for (const auto& [height, width] : {std::pair{32, 48}, {1, 1}, {1, 7}, {224, 3}}) {
    const BatchChain chain = cutmix(1, 0, height, width);
    for (std::uint32_t place = 0; place < 500; ++place) {
      const DrawnMix drawn = chain.draw(1, 0, place);
      ASSERT_TRUE(0 <= drawn.top && drawn.top <= drawn.bottom && drawn.bottom <= height);
      ASSERT_TRUE(0 <= drawn.left && drawn.left <= drawn.right && drawn.right <= width);
      const double area = (drawn.bottom - drawn.top) * (drawn.right - drawn.left);
      ASSERT_FLOAT_EQ(drawn.own, static_cast<float>(1 - area / (height * width)));
      ASSERT_EQ(drawn.other, 1 - drawn.own);
    }
  }
}

TEST(BatchChain, ReportsItsFieldsAndForm) {
  const BatchChain chain({.cutmix = CutMix{}, .one_hot = OneHot{0.1}}, 0,
                         {label(4), image(DType::uint8)});
  EXPECT_EQ(chain.image(), 1U);
  EXPECT_EQ(chain.label(), 0U);
  EXPECT_EQ(chain.form().images, MixForm::Images::boxed);
  EXPECT_EQ(chain.form().dtype, DType::uint8);
  EXPECT_EQ(chain.form().label, DType::uint8);
  EXPECT_EQ(chain.form().classes, 4);
  EXPECT_EQ(chain.form().on, 0.925F);
  EXPECT_EQ(chain.form().off, 0.025F);

  const BatchChain labels({.one_hot = OneHot{}}, 0, {image(DType::uint8), image(), label(4)});
  EXPECT_FALSE(labels.image());
  EXPECT_EQ(labels.label(), 2U);
  EXPECT_EQ(labels.form().on, 1);
  EXPECT_EQ(labels.form().off, 0);
}

TEST(BatchChain, InvalidFieldsAreRefused) {
  const auto refusal = [](const BatchOps& ops, const Fields& fields) {
    return thrown_by([&] { BatchChain(ops, 0, fields); });
  };
  const BatchOps blend{.mixup = MixUp{}};
  const BatchOps box{.cutmix = CutMix{}};
  const BatchOps soft{.one_hot = OneHot{}};
  const FieldSpec mask{"mask", FieldKind::mask, DType::uint8, {32, 48}, 10};
  EXPECT_THAT(refusal(blend, {label()}),
              StartsWith("Refused: mixup needs one image per sample, but the data set has none"));
  EXPECT_THAT(refusal(box, {image(), image(), label()}), HasSubstr("the data set has 2"));
  EXPECT_THAT(refusal(blend, {image()}),
              HasSubstr("one label per sample, but the data set has none"));
  EXPECT_THAT(refusal(soft, {image(), mask}),
              StartsWith("Refused: one_hot needs one label per sample"));
  EXPECT_THAT(
      refusal(blend, {image(DType::uint8), label()}),
      AllOf(HasSubstr("'photo' is uint8"), HasSubstr("put to_dtype or normalize before it")));
  EXPECT_THAT(refusal(blend, {image(), mask, label()}),
              AllOf(StartsWith("Refused: mixup"), HasSubstr("'mask' is a mask")));
  EXPECT_THAT(refusal(box, {image(), mask}), HasSubstr("'mask' is a mask"));
  EXPECT_THAT(refusal(soft, {image(), label(0)}), HasSubstr("has an unknown number of classes"));
  const FieldSpec vector{"class", FieldKind::label, DType::uint8, {3}, 10};
  EXPECT_THAT(refusal(soft, {image(), vector}), HasSubstr("is uint8 of shape"));
  const FieldSpec number{"class", FieldKind::label, DType::float32, {}, 0};
  EXPECT_THAT(refusal(soft, {image(), number}), HasSubstr("is float32"));
  EXPECT_THAT(refusal(box, {image(DType::int32), label()}), HasSubstr("uint8 or float32 images"));
  EXPECT_THAT(refusal(box, {image(DType::uint8, 40'000, 40'000), label()}), HasSubstr("2^30"));
  EXPECT_EQ(refusal(soft, {image(DType::uint8), mask, label()}), "nothing");
}

}  // namespace
}  // namespace slipstream
