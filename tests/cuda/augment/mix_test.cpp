#include "transforms/mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "cuda/augment/mix_executor.h"
#include "transforms/batch_chain.h"

// These tests run in two programs: on the host, and with the kernel on a GPU. The correct result is
// computed here, value by value.
namespace slipstream {
namespace {

using Images = MixForm::Images;

template <typename T>
std::vector<std::byte> bytes_of_values(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A batch in host memory; T is the type of the images.
template <typename T>
struct Case {
  Case(const MixForm& f, std::int64_t batch_size) : form(f), size(batch_size) {
    std::uint32_t state = 7;
    const auto next = [&] { return state = state * 1'664'525U + 1'013'904'223U; };
    const auto count = static_cast<std::size_t>(size * form.elements());
    for (std::size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(next() >> 8) * 0x1p-20F - 7;
      images.push_back(sizeof(T) == 1 ? static_cast<T>(next() >> 24) : static_cast<T>(value));
    }
    for (std::int64_t i = 0; i < size; ++i)
      labels.push_back(static_cast<std::int64_t>(next() >> 8) % form.classes);
  }

  void draw(const BatchOps& ops) {
    const FieldSpec image{
        "image", FieldKind::image, form.dtype, {form.height, form.width, form.channels}, 0};
    const FieldSpec label{"label", FieldKind::label, form.label, {}, form.classes};
    const BatchChain chain(ops, 3, {image, label});
    form.on = chain.form().on;
    form.off = chain.form().off;
    for (std::int64_t i = 0; i < size; ++i)
      drawn.push_back(chain.draw(11, 4, static_cast<std::uint32_t>(i)));
  }

  const DrawnMix& at(std::int64_t i) const { return drawn[static_cast<std::size_t>(i)]; }
  std::int64_t partner(std::int64_t i) const { return (i + size - 1) % size; }
  T pixel(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t c) const {
    return images[place(i, y, x, c)];
  }
  std::size_t place(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t c) const {
    const std::int64_t inside = form.planar ? (c * form.height + y) * form.width + x
                                            : (y * form.width + x) * form.channels + c;
    return static_cast<std::size_t>(i * form.elements() + inside);
  }

  T expected_pixel(std::int64_t i, std::int64_t y, std::int64_t x, std::int64_t c) const {
    const T own = pixel(i, y, x, c);
    const T other = pixel(partner(i), y, x, c);
    const DrawnMix& d = at(i);
    if (form.images == Images::boxed)
      return d.top <= y && y < d.bottom && d.left <= x && x < d.right ? other : own;
    const float a = static_cast<float>(own) * d.own;
    const float b = static_cast<float>(other) * d.other;
    return static_cast<T>(a + b);
  }

  std::vector<T> expected_images() const {
    std::vector<T> all(images.size());
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t y = 0; y < form.height; ++y)
        for (std::int64_t x = 0; x < form.width; ++x)
          for (std::int64_t c = 0; c < form.channels; ++c)
            all[place(i, y, x, c)] = expected_pixel(i, y, x, c);
    return all;
  }

  std::vector<float> expected_targets() const {
    std::vector<float> all;
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t c = 0; c < form.classes; ++c) {
        const auto of = [&](std::int64_t sample) {
          return labels[static_cast<std::size_t>(sample)] == c ? form.on : form.off;
        };
        const float alone = of(i);
        const float a = drawn.empty() ? alone : alone * at(i).own;
        const float b = drawn.empty() ? 0 : of(partner(i)) * at(i).other;
        all.push_back(a + b);
      }
    return all;
  }

  std::vector<std::byte> label_bytes() const {
    if (form.label == DType::int64) return bytes_of_values(labels);
    if (form.label == DType::int32)
      return bytes_of_values(std::vector<std::int32_t>(labels.begin(), labels.end()));
    return bytes_of_values(std::vector<std::uint8_t>(labels.begin(), labels.end()));
  }

  /// Returns mixed images and targets, whose memory is filled with wrong values before.
  template <typename Out>
  std::pair<std::vector<Out>, std::vector<float>> result() const {
    std::vector<Out> mixed(images.size(), Out{77});
    std::vector<float> targets(static_cast<std::size_t>(size * form.classes), -1);
    const std::vector<std::byte> label = label_bytes();
    const bool has_images = form.images != Images::none;
    test::mix_on_tested_device(form, {.size = size,
                                      .drawn = drawn.empty() ? nullptr : drawn.data(),
                                      .images = has_images ? images.data() : nullptr,
                                      .mixed = has_images ? mixed.data() : nullptr,
                                      .labels = label.data(),
                                      .targets = targets.data()});
    return {mixed, targets};
  }

  void expect_right() const {
    const auto [mixed, targets] = result<T>();
    EXPECT_EQ(bytes_of_values(mixed), bytes_of_values(expected_images()));
    EXPECT_EQ(bytes_of_values(targets), bytes_of_values(expected_targets()));
  }

  MixForm form;
  std::int64_t size;
  std::vector<T> images;
  std::vector<std::int64_t> labels;
  std::vector<DrawnMix> drawn = {};
};

MixForm make_mix_form(Images images, DType dtype, std::int64_t height, std::int64_t width,
                      std::int64_t channels, bool planar = false) {
  MixForm form;
  form.images = images;
  form.dtype = dtype;
  form.height = height;
  form.width = width;
  form.channels = channels;
  form.planar = planar;
  form.label = DType::uint8;
  form.classes = 10;
  return form;
}

struct Size {
  std::int64_t batch, height, width, channels;
};

// Sizes with and without a remainder after whole vectors, with one block per image and with
// several.
constexpr Size kSizes[] = {{1, 4, 4, 3},  {2, 1, 1, 1},   {5, 7, 3, 3},    {4, 8, 8, 1},
                           {3, 9, 5, 4},  {7, 32, 48, 3}, {3, 61, 67, 2},  {2, 64, 64, 4},
                           {33, 3, 4, 1}, {2, 3, 1, 400}, {4, 224, 224, 3}};

class MixTest : public testing::Test {
 protected:
  void SetUp() override { test::require_mixer(); }
};

template <typename T>
void expect_right_for_every_size(Images images, DType dtype, const BatchOps& ops) {
  for (const Size& size : kSizes)
    for (const bool planar : {false, true}) {
      SCOPED_TRACE(std::to_string(size.batch) + " of " + std::to_string(size.height) + " x " +
                   std::to_string(size.width) + " x " + std::to_string(size.channels) +
                   (planar ? ", planar" : ""));
      Case<T> one(make_mix_form(images, dtype, size.height, size.width, size.channels, planar),
                  size.batch);
      one.draw(ops);
      one.expect_right();
    }
}

TEST_F(MixTest, MixUpBlendsEveryImageWithItsPartner) {
  expect_right_for_every_size<float>(Images::blended, DType::float32, {.mixup = MixUp{0.8}});
}

TEST_F(MixTest, CutMixPastesPartnersBoxIntoFloatImages) {
  expect_right_for_every_size<float>(Images::boxed, DType::float32, {.cutmix = CutMix{1}});
}

TEST_F(MixTest, CutMixPastesPartnersBoxIntoUint8Images) {
  expect_right_for_every_size<std::uint8_t>(Images::boxed, DType::uint8,
                                            {.cutmix = CutMix{1}, .one_hot = OneHot{0.1}});
}

TEST_F(MixTest, MixingWeightsDifferBetweenSamples) {
  for (const Images images : {Images::blended, Images::boxed}) {
    Case<float> one(make_mix_form(images, DType::float32, 16, 16, 3), 8);
    one.draw(images == Images::blended ? BatchOps{.mixup = MixUp{}} : BatchOps{.cutmix = CutMix{}});
    EXPECT_NE(one.at(0).own, one.at(1).own);
    one.expect_right();
  }
}

TEST_F(MixTest, Bfloat16OutputIsRoundedAfterMixing) {
  for (const Images images : {Images::blended, Images::boxed})
    for (const std::int64_t width : {16, 5}) {
      Case<float> one(make_mix_form(images, DType::float32, 9, width, 3), 4);
      one.draw({.mixup = MixUp{}});
      for (DrawnMix& drawn : one.drawn) {
        drawn.bottom = 6;
        drawn.right = 4;
      }
      one.form.bf16 = true;
      std::vector<std::uint16_t> expected;
      for (const float value : one.expected_images()) expected.push_back(to_bf16(value));
      EXPECT_EQ(one.result<std::uint16_t>().first, expected);
    }
}

TEST_F(MixTest, EveryLabelTypeGivesOneHotAndMixedTargets) {
  for (const DType label : {DType::uint8, DType::int32, DType::int64})
    for (const std::int64_t classes : {1, 3, 10, 256, 1000}) {
      if (label == DType::uint8 && classes > 256) continue;
      MixForm form = make_mix_form(Images::none, DType::float32, 0, 0, 0);
      form.label = label;
      form.classes = classes;
      form.on = 0.91F;
      form.off = 0.01F;
      Case<float> one(form, 19);
      EXPECT_EQ(one.result<float>().second, one.expected_targets());
      one.form.images = Images::blended;
      one.form.height = one.form.width = one.form.channels = 1;
      one.images.resize(19, 1.5F);
      one.draw({.mixup = MixUp{0.4}});
      one.expect_right();
    }
}

TEST_F(MixTest, TargetsOfEverySampleSumToOne) {
  Case<float> one(make_mix_form(Images::blended, DType::float32, 2, 2, 3), 64);
  one.draw({.mixup = MixUp{0.4}, .one_hot = OneHot{0.1}});
  const std::vector<float> targets = one.result<float>().second;
  for (std::size_t i = 0; i < 64; ++i) {
    double sum = 0;
    for (std::size_t c = 0; c < 10; ++c) sum += static_cast<double>(targets[i * 10 + c]);
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST_F(MixTest, OutOfRangeLabelGivesZeroTargets) {
  MixForm form = make_mix_form(Images::none, DType::float32, 0, 0, 0);
  form.label = DType::int64;
  Case<float> one(form, 4);
  one.labels = {-1, 10, std::numeric_limits<std::int64_t>::max(), 3};
  const std::vector<float> targets = one.result<float>().second;
  for (std::size_t i = 0; i < targets.size(); ++i) EXPECT_EQ(targets[i], i == 33 ? 1 : 0) << i;
}

TEST_F(MixTest, NanPixelsNotSelectedByCutMixAreNotRead) {
  Case<float> one(make_mix_form(Images::boxed, DType::float32, 8, 8, 1), 2);
  one.draw({.cutmix = CutMix{}});
  one.drawn[0] = DrawnMix{.own = 1, .other = 0};
  one.drawn[1] = DrawnMix{.own = 0, .other = 1, .top = 0, .left = 0, .bottom = 8, .right = 8};
  for (std::size_t i = 64; i < 128; ++i) one.images[i] = std::nanf("");
  const std::vector<float> mixed = one.result<float>().first;
  for (std::size_t i = 0; i < 64; ++i) {
    ASSERT_EQ(mixed[i], one.images[i]);
    ASSERT_EQ(mixed[64 + i], one.images[i]);
  }
}

}  // namespace
}  // namespace slipstream
