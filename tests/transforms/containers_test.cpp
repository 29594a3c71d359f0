#include "slipstream/transforms/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/batch_ops.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/thrown.h"
#include "transforms/chain_text.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const NamedOp kInvert{"invert", RandomInvert{1}};
const NamedOp kFlip{"flip", RandomHorizontalFlip{1}};
const NamedOp kRotate{"rotate", RandomRotation{{-90, 90}}};

FieldSpec make_image_spec(const Shape& shape, DType dtype = DType::uint8) {
  return {"photo", FieldKind::image, dtype, shape, 0};
}

/// Applies an operation to a sample of one image.
Pixels<std::uint8_t> changed(const AnyOp& op, const Pixels<std::uint8_t>& image,
                             std::uint64_t sample) {
  Sample all;
  all.fields.resize(1);
  all.fields[0].array.assign(image.view());
  const std::vector<FieldSpec> specs = {make_image_spec(image.shape)};
  std::vector<HostArray> spare(1);
  Scratch scratch;
  op.apply(make_key(sample), specs, all, spare, scratch);
  const ConstArray made = all.fields[0].array.view();
  const auto* values = made.as<std::uint8_t>();
  return {made.dtype, made.shape, {values, values + made.shape.elements()}};
}

TEST(RandomApply, AppliesAllOperationsInOrderOrNone) {
  const auto image = level_image({8, 6, 3});
  const AnyOp op{RandomApply{{kInvert, {"posterize", RandomPosterize{3, 1}}, kFlip}, 0.3}};
  auto expected = changed(kInvert.op, image, 0);
  expected = changed(RandomPosterize{3, 1}, expected, 0);
  expected = changed(kFlip.op, expected, 0);
  int count = 0;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    const auto made = changed(op, image, sample);
    const bool applies = RandomStream(make_key(sample)).uniform() < 0.3;
    ASSERT_EQ(made, applies ? expected : image) << sample;
    count += applies ? 1 : 0;
  }
  EXPECT_NEAR(count, 300, 60);
}

TEST(RandomApply, OperationsHaveIndependentRandomNumbers) {
  const auto image = level_image({8, 6, 3});
  const AnyOp op{RandomApply{{{"a", RandomHorizontalFlip{}}, {"b", RandomVerticalFlip{}}}, 1}};
  std::map<std::vector<std::uint8_t>, int> results;
  for (std::uint64_t sample = 0; sample < 400; ++sample)
    ++results[changed(op, image, sample).values];
  EXPECT_EQ(results.size(), 4u);
  for (const auto& [values, count] : results) EXPECT_NEAR(count, 100, 40);
}

TEST(RandomApply, MasksAreChangedLikeTheImage) {
  const RandomApply op{{kInvert, kRotate}, 0.5};
  const auto image = level_image({9, 7, 1});
  const Pixels<std::uint8_t> mask{DType::uint8, {9, 7}, image.values};
  const RandomApply rotates{{kRotate}, 0.5};
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const auto drawn = op.draw(make_key(sample), image.shape);
    const auto moved = applied<std::uint8_t>(op, drawn, FieldKind::mask, mask);
    if (drawn.choice == 0) {
      ASSERT_EQ(moved, mask);
    } else {
      // The image is inverted and then rotated; outside of the image it is 0, as the mask is.
      const auto made = applied<std::uint8_t>(op, drawn, FieldKind::image, image);
      for (std::size_t i = 0; i < moved.values.size(); ++i)
        ASSERT_TRUE(made.values[i] == 255 - moved.values[i] ||
                    (made.values[i] == 0 && moved.values[i] == 0));
    }
  }
}

TEST(RandomChoice, AppliesOneOperationWithItsProbability) {
  const auto image = level_image({8, 6, 3});
  const NamedOp posterize{"posterize", RandomPosterize{1, 1}};
  const AnyOp op{RandomChoice{{kInvert, kFlip, posterize}, {1, 0, 3}}};
  const AnyOp even{RandomChoice{{kInvert, kFlip, posterize}}};
  const std::vector<Pixels<std::uint8_t>> results = {
      changed(kInvert.op, image, 0), changed(kFlip.op, image, 0), changed(posterize.op, image, 0)};
  std::vector<int> count(3), count_even(3);
  for (std::uint64_t sample = 0; sample < 3000; ++sample) {
    const auto index = [&](const AnyOp& each) {
      const auto found = std::find(results.begin(), results.end(), changed(each, image, sample));
      return static_cast<std::size_t>(found - results.begin());
    };
    ++count.at(index(op));
    ++count_even.at(index(even));
  }
  EXPECT_EQ(count[1], 0);
  EXPECT_NEAR(count[0], 750, 100);
  for (const int each : count_even) EXPECT_NEAR(each, 1000, 100);
}

TEST(RandomChoice, MayChangeSizesIfAllOperationsGiveTheSame) {
  const AnyOp op{RandomChoice{{{"crop", CenterCrop{4}}, {"resize", Resize{{4, 4}}}}}};
  EXPECT_EQ(op.output(make_image_spec({-1, -1, 3})).shape, Shape({4, 4, 3}));
  EXPECT_EQ(changed(op, level_image({8, 6, 3}), 1).shape, Shape({4, 4, 3}));
}

MutableArray boxes_in(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::float32, {1, 4}};
}

TEST(Containers, BoxesMoveWithTheImage) {
  const Shape shape{10, 20, 3};
  const AnyOp apply{RandomApply{{kFlip, kInvert, {"down", RandomVerticalFlip{1}}}, 0.5}};
  EXPECT_TRUE(apply.touches(FieldKind::boxes));
  int moved = 0;
  for (std::uint64_t sample = 0; sample < 40; ++sample) {
    std::vector<std::byte> drawn(apply.drawn_bytes());
    apply.draw(make_key(sample), shape, drawn.data());
    std::vector<float> boxes = {1, 2, 5, 4};
    move_boxes(*apply.map(drawn.data(), shape), boxes_in(boxes), boxes_in(boxes));
    const bool applies = RandomStream(make_key(sample)).uniform() < 0.5;
    EXPECT_EQ(boxes,
              applies ? (std::vector<float>{15, 6, 19, 8}) : (std::vector<float>{1, 2, 5, 4}));
    moved += applies ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
  EXPECT_LT(moved, 40);
}

TEST(Containers, BoxesAreNotTouchedIfNoOperationMovesPixels) {
  const AnyOp apply{RandomApply{{kInvert}, 1}};
  const AnyOp choice{RandomChoice{{kInvert, {"gray", RandomGrayscale{}}}}};
  for (const AnyOp& op : {apply, choice}) {
    EXPECT_FALSE(op.touches(FieldKind::boxes));
    std::vector<std::byte> drawn(op.drawn_bytes());
    op.draw(make_key(1), {4, 4, 3}, drawn.data());
    EXPECT_FALSE(op.map(drawn.data(), {4, 4, 3}));
  }
}

TEST(Containers, SamplesMustFitAllOperations) {
  const NamedOp blur{"blur", GaussianBlur{9}};
  const auto draw = [](const auto& op, std::uint64_t sample) {
    return thrown_by([&] { op.draw(make_key(sample), {4, 9, 3}); });
  };
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    EXPECT_THAT(draw(RandomApply{{kInvert, blur}, 0.01}, sample), HasSubstr("gaussian_blur"));
    EXPECT_THAT(draw(RandomChoice{{kInvert, blur}, {1, 0.01}}, sample), HasSubstr("gaussian_blur"));
  }
  const RandomApply op{{kInvert}, 0};
  EXPECT_THAT(thrown_by([&] {
                applied<std::uint8_t>(op, op.draw(make_key(1), {5, 5, 3}), FieldKind::image,
                                      level_image({4, 5, 3}));
              }),
              HasSubstr("random_apply: a field is 4 x 5 pixels, but the sample's first image is 5 "
                        "x 5; make them the same size"));
}

TEST(Containers, FieldsOfDifferentSizesAreRefused) {
  const std::vector<FieldSpec> fields = {make_image_spec({5, 5, 3}),
                                         {"mask", FieldKind::mask, DType::uint8, {4, 5}, 0}};
  EXPECT_THAT(thrown_by([&] { fields_after(RandomApply{{kFlip}}, fields); }),
              HasSubstr("random_apply: field 'mask' is 4 x 5 pixels"));
}

TEST(Containers, AreRandomIfTheirResultIs) {
  EXPECT_TRUE((RandomApply{{kInvert}, 0.5}.is_random()));
  EXPECT_TRUE((RandomApply{{kRotate}, 1}.is_random()));
  EXPECT_FALSE((RandomApply{{kInvert}, 1}.is_random()));
  EXPECT_FALSE((RandomApply{{kRotate}, 0}.is_random()));
  EXPECT_TRUE((RandomChoice{{kInvert, kFlip}}.is_random()));
  EXPECT_FALSE((RandomChoice{{kInvert}}.is_random()));
  EXPECT_FALSE((RandomChoice{{kInvert, kRotate}, {1, 0}}.is_random()));
  EXPECT_TRUE((RandomChoice{{kInvert, kRotate}, {0, 1}}.is_random()));
}

std::vector<std::string> evaluated(const AnyOp& op) {
  std::vector<std::string> names;
  for (const NamedOp& each : evaluation_transforms({{"x", op}})) names.emplace_back(each.op.name());
  return names;
}

TEST(Containers, EvaluationFormsKeepTheSizeAndDtype) {
  const NamedOp crop{"crop", RandomCrop{{8, 8}}};
  const NamedOp part{"part", RandomResizedCrop{{8, 8}}};
  const NamedOp shorter{"shorter", Resize{241}};
  EXPECT_THAT(evaluated(RandomApply{{kInvert}, 0.5}), ElementsAre());
  EXPECT_THAT(evaluated(RandomApply{{kRotate, {"gray", RandomGrayscale{}}}, 1}), ElementsAre());
  EXPECT_THAT(evaluated(RandomApply{{kRotate, kInvert}, 1}), ElementsAre("random_apply"));
  EXPECT_THAT(evaluated(RandomChoice{{kInvert, kFlip}}), ElementsAre());
  EXPECT_THAT(evaluated(RandomChoice{{crop, part}}), ElementsAre("center_crop"));
  EXPECT_THAT(evaluated(RandomChoice{{part, crop}}), ElementsAre("resize", "center_crop"));
  EXPECT_THAT(evaluated(RandomChoice{{shorter, {"other", Resize{241, false}}}}),
              ElementsAre("resize"));
  EXPECT_THAT(evaluated(RandomChoice{{{"a", ToDtype{}}, {"b", Normalize{{0}, {1}}}}}),
              ElementsAre("to_dtype"));
  const auto* kept = RandomApply{{kRotate, kInvert}, 1}.for_evaluation()->get_if<RandomApply>();
  ASSERT_NE(kept, nullptr);
}

TEST(Containers, InvalidParametersAreRefused) {
  EXPECT_EQ(thrown_by([] { RandomApply{}.validate(); }),
            "Refused: random_apply: there are 0 transforms; give 1 to 64");
  EXPECT_THAT(
      thrown_by([] {
        RandomApply{{{"invert", RandomInvert{2}}}, 3}.validate();
      }),
      AllOf(HasSubstr("random_apply: random_invert: p is 2"), HasSubstr("random_apply: p is 3")));
  EXPECT_EQ(thrown_by([] {
              RandomChoice{{{"mix", MixUp{}}}}.validate();
            }),
            "Refused: random_choice: 'mix' works on whole batches, so it cannot be in a container: "
            "put it after random_choice");
  EXPECT_THAT(thrown_by([] {
                RandomChoice{{kInvert}, {1, 2}}.validate();
              }),
              HasSubstr("p has 2 numbers for 1 transforms; give one for each, or leave p out"));
  EXPECT_THAT(thrown_by([] {
                RandomChoice{{kInvert}, {-1}}.validate();
              }),
              HasSubstr("a number of p is -1; it must be 0 or more"));
  EXPECT_THAT(thrown_by([] {
                RandomChoice{{kInvert}, {0}}.validate();
              }),
              HasSubstr("the sum of p is 0; it must be above 0"));
  EXPECT_EQ(refused_field(RandomApply{{kInvert, {"crop", CenterCrop{4}}}}, DType::uint8, {8, 6, 3}),
            "Refused: random_apply: 'crop' changes 'photo' from uint8, 8 x 6 x 3 to uint8, 4 x 4 x "
            "3, but images that it is not applied to keep theirs: put it before or after "
            "random_apply");
  EXPECT_EQ(refused_field(RandomChoice{{kInvert, {"float", ToDtype{}}}}, DType::uint8, {8, 6, 3}),
            "Refused: random_choice: 'float' makes 'photo' float32, 8 x 6 x 3, but 'invert' makes "
            "it uint8, 8 x 6 x 3; all transforms must give the same dtype and shape");
}

TEST(ContainerChain, NestedTransformsAreReadAndWritten) {
  const auto chain = parse_chain(with(R"(
      {"op": "random_apply", "p": 0.25, "transforms": [
        {"op": "random_crop", "size": 8, "padding": null}, {"name": "own", "op": "random_invert"}]},
      {"op": "random_choice", "p": null, "transforms": [
        {"op": "random_apply", "transforms": [{"op": "random_affine", "degrees": 1, "shear": null}]},
        {"op": "random_mask"}]},
      {"name": "weighted", "op": "random_choice", "p": [1, 2.5, 0, 1, 1],
       "transforms": [{"op": "random_invert"}, {"op": "random_invert"}, {"op": "random_invert"},
                      {"op": "random_invert"}, {"op": "random_invert"}]})"));
  const auto* apply = chain[0].op.get_if<RandomApply>();
  EXPECT_EQ(apply->p, 0.25);
  EXPECT_EQ(apply->transforms[0].op.get_if<RandomCrop>()->size, Size(8, 8));
  EXPECT_EQ(apply->transforms[1].name, "own");
  EXPECT_TRUE(chain[1].op.get_if<RandomChoice>()->p.empty());
  EXPECT_THAT(chain[2].op.get_if<RandomChoice>()->p, ElementsAre(1, 2.5, 0, 1, 1));
  EXPECT_EQ(to_json_text(parse_chain(to_json_text(chain))), to_json_text(chain));
}

TEST(ContainerChain, ProblemsOfNestedTransformsAreReportedWithTheirPaths) {
  EXPECT_THAT(
      chain_refusal(R"({"op": "random_apply", "transforms": [{"op": "rezise"}, 3,
                  {"op": "random_rotation", "degrees": 8, "expand": true},
                  {"op": "random_choice", "transforms": [{"op": "random_invert", "p": 2}]}]},
               {"op": "random_apply", "transforms": []}, {"op": "random_choice"},
               {"op": "random_choice", "transforms": 4, "p": []})"),
      AllOf(HasSubstr("transforms[0].transforms[0].op: unknown operation 'rezise'"),
            HasSubstr("transforms[0].transforms[1] must be an object, not 3"),
            HasSubstr("transforms[0].transforms[2]: random_rotation: \"expand\" is true"),
            HasSubstr("transforms[0].transforms[3].transforms[0]: random_invert: p is 2"),
            HasSubstr("transforms[1]: random_apply: there are 0 transforms"),
            HasSubstr("transforms[2].transforms is missing"),
            HasSubstr("transforms[3].transforms must be a list, not 4"),
            HasSubstr("transforms[3].p must be a list of numbers, one for each transform")));
}

}  // namespace
}  // namespace slipstream
