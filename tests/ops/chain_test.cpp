#include "slipstream/ops/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/ops/blur.h"
#include "slipstream/ops/resize.h"
#include "slipstream/ops/transforms.h"
#include "slipstream/ops/warp.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text) {
  return thrown_by([&] { parse_chain(text); });
}

std::string with(const std::string& transforms) {
  return R"({"version": 1, "transforms": [)" + transforms + "]}";
}

TEST(Chain, ReadsEveryOperationWithItsParameters) {
  const auto chain = parse_chain(with(R"(
      {"name": "small", "op": "resize", "height": 64, "width": 48},
      {"op": "center_crop", "height": 5, "width": 6},
      {"op": "random_crop", "height": 32, "width": 33, "padding": 4},
      {"op": "random_resized_crop", "height": 224, "width": 225, "scale_min": 0.1,
       "scale_max": 0.9, "ratio_min": 0.5, "ratio_max": 2},
      {"op": "horizontal_flip", "probability": 0.25},
      {"op": "vertical_flip", "probability": 1},
      {"op": "to_float"},
      {"op": "normalize", "mean": [0.485, 0.456, 0], "std": [0.229, 0.224, 1]})"));
  ASSERT_EQ(chain.size(), 8u);
  EXPECT_EQ(chain[0].name, "small");
  EXPECT_EQ(chain[1].name, "center_crop");
  const auto* resize = chain[0].op.get_if<Resize>();
  ASSERT_NE(resize, nullptr);
  EXPECT_EQ(resize->height, 64);
  EXPECT_EQ(resize->width, 48);
  EXPECT_EQ(chain[1].op.get_if<CenterCrop>()->width, 6);
  EXPECT_EQ(chain[2].op.get_if<RandomCrop>()->padding, 4);
  const auto* random = chain[3].op.get_if<RandomResizedCrop>();
  EXPECT_EQ(random->width, 225);
  EXPECT_EQ(random->scale_min, 0.1);
  EXPECT_EQ(random->scale_max, 0.9);
  EXPECT_EQ(random->ratio_min, 0.5);
  EXPECT_EQ(random->ratio_max, 2);
  EXPECT_EQ(chain[4].op.get_if<HorizontalFlip>()->probability, 0.25);
  EXPECT_EQ(chain[5].op.get_if<VerticalFlip>()->probability, 1);
  EXPECT_NE(chain[6].op.get_if<ToFloat>(), nullptr);
  const auto* normalize = chain[7].op.get_if<Normalize>();
  EXPECT_EQ(normalize->mean[1], 0.456);
  EXPECT_EQ(normalize->std[2], 1);
}

TEST(Chain, HasOneLayout) {
  const std::vector<NamedOp> chain = {{"crop", RandomResizedCrop{224, 192}},
                                      {"scale", Normalize{{0.485, 0, 1}, {0.229, 1, 2}}}};
  EXPECT_EQ(to_json(chain), R"({
  "version": 1,
  "transforms": [
    {
      "name": "crop",
      "op": "random_resized_crop",
      "height": 224,
      "width": 192,
      "scale_min": 0.08,
      "scale_max": 1.0,
      "ratio_min": 0.75,
      "ratio_max": 1.3333333333333333,
      "antialias": true
    },
    {
      "name": "scale",
      "op": "normalize",
      "mean": [
        0.485,
        0.0,
        1.0
      ],
      "std": [
        0.229,
        1.0,
        2.0
      ]
    }
  ]
}
)");
}

// Every key, with a value that is not what is taken without it.
constexpr const char* kGeometry = R"({
  "version": 1,
  "transforms": [
    {
      "name": "small",
      "op": "resize",
      "height": 4,
      "width": 5,
      "antialias": false
    },
    {
      "name": "part",
      "op": "random_resized_crop",
      "height": 6,
      "width": 7,
      "scale_min": 0.1,
      "scale_max": 0.2,
      "ratio_min": 1.0,
      "ratio_max": 2.0,
      "antialias": false
    },
    {
      "name": "turn",
      "op": "rotate",
      "degrees_min": -30.5,
      "degrees_max": 45.0,
      "interpolation": "bilinear",
      "fill": 7.0
    },
    {
      "name": "stretch",
      "op": "affine",
      "degrees_min": -1.0,
      "degrees_max": 2.0,
      "translate_x": 0.1,
      "translate_y": 0.2,
      "scale_min": 0.5,
      "scale_max": 1.5,
      "shear_x_min": -3.0,
      "shear_x_max": 4.0,
      "shear_y_min": -5.0,
      "shear_y_max": 6.0,
      "interpolation": "bilinear",
      "fill": 8.0
    },
    {
      "name": "soft",
      "op": "gaussian_blur",
      "size": 9,
      "sigma_min": 0.25,
      "sigma_max": 2.5
    }
  ]
}
)";

TEST(Chain, ReadsEveryKeyOfGeometry) {
  const auto chain = parse_chain(kGeometry);
  ASSERT_EQ(chain.size(), 5u);
  EXPECT_FALSE(chain[0].op.get_if<Resize>()->antialias);
  EXPECT_FALSE(chain[1].op.get_if<RandomResizedCrop>()->antialias);
  const auto* rotate = chain[2].op.get_if<Rotate>();
  EXPECT_EQ(rotate->degrees_min, -30.5);
  EXPECT_EQ(rotate->degrees_max, 45);
  EXPECT_EQ(rotate->interpolation, Interpolation::bilinear);
  EXPECT_EQ(rotate->fill, 7);
  const auto* affine = chain[3].op.get_if<Affine>();
  EXPECT_EQ(affine->degrees_min, -1);
  EXPECT_EQ(affine->degrees_max, 2);
  EXPECT_EQ(affine->translate_x, 0.1);
  EXPECT_EQ(affine->translate_y, 0.2);
  EXPECT_EQ(affine->scale_min, 0.5);
  EXPECT_EQ(affine->scale_max, 1.5);
  EXPECT_EQ(affine->shear_x_min, -3);
  EXPECT_EQ(affine->shear_x_max, 4);
  EXPECT_EQ(affine->shear_y_min, -5);
  EXPECT_EQ(affine->shear_y_max, 6);
  EXPECT_EQ(affine->interpolation, Interpolation::bilinear);
  EXPECT_EQ(affine->fill, 8);
  const auto* blur = chain[4].op.get_if<GaussianBlur>();
  EXPECT_EQ(blur->size, 9);
  EXPECT_EQ(blur->sigma_min, 0.25);
  EXPECT_EQ(blur->sigma_max, 2.5);
}

TEST(Chain, WritesEveryKeyOfGeometry) { EXPECT_EQ(to_json(parse_chain(kGeometry)), kGeometry); }

TEST(Chain, LeavesOutWhatGeometryDoesNotNeed) {
  const auto chain = parse_chain(with(R"({"op": "resize", "height": 4, "width": 4},
      {"op": "rotate", "degrees_min": 0, "degrees_max": 9, "interpolation": "nearest"},
      {"op": "affine"})"));
  EXPECT_TRUE(chain[0].op.get_if<Resize>()->antialias);
  EXPECT_EQ(chain[1].op.get_if<Rotate>()->interpolation, Interpolation::nearest);
  EXPECT_EQ(chain[1].op.get_if<Rotate>()->fill, 0);
  EXPECT_FALSE(chain[2].op.is_random());
}

TEST(Chain, TellsProblemsOfGeometry) {
  EXPECT_EQ(refusal(with(R"({"op": "rotate", "interpolation": "bicubic\n", "fill": "red"},
                {"op": "affine", "interpolation": 1, "scale_min": 2, "scale_max": 1},
                {"op": "affine", "name": "b", "translate_x": 1.5},
                {"op": "gaussian_blur", "size": 3.5},
                {"op": "gaussian_blur", "name": "c", "size": 4, "sigma_min": 1, "sigma_max": 1},
                {"op": "resize", "height": 4, "width": 4, "antialias": 1},
                {"op": "random_resized_crop", "height": 4, "width": 4, "antialias": "no"})")),
            R"(Refused: these transforms cannot be read:
  transforms[0].degrees_min is missing
  transforms[0].degrees_max is missing
  transforms[0].interpolation must be nearest or bilinear, not "bicubic\n"
  transforms[0].fill must be a number, not "red"
  transforms[1].interpolation must be nearest or bilinear, not 1
  transforms[2]: affine: translate_x is 0 to 1.5; it must be 0 to 1, the first at most the second
  transforms[3].size must be a whole number, not 3.5
  transforms[3].sigma_min is missing
  transforms[3].sigma_max is missing
  transforms[4]: gaussian_blur: the size is 4; it must be odd, 1 to 63
  transforms[5].antialias must be true or false, not 1
  transforms[6].antialias must be true or false, not "no")");
}

TEST(Chain, SurvivesWritingAndReading) {
  const std::vector<NamedOp> chain = {
      {"a", Resize{3, 4}},        {"b", CenterCrop{2, 2}},      {"\xc3\xa9\n\"", RandomCrop{2, 1}},
      {"d", HorizontalFlip{0.1}}, {"e", VerticalFlip{1.0 / 3}}, {"f", ToFloat{}},
      {"g", Normalize{}}};
  const auto read = parse_chain(to_json(chain));
  EXPECT_EQ(to_json(read), to_json(chain));
  ASSERT_EQ(read.size(), chain.size());
  EXPECT_EQ(read[2].name, chain[2].name);
  EXPECT_EQ(read[4].op.get_if<VerticalFlip>()->probability, 1.0 / 3);
  EXPECT_TRUE(parse_chain(to_json(std::vector<NamedOp>{})).empty());
}

TEST(Chain, TellsAllProblemsWithTheirPaths) {
  EXPECT_EQ(refusal(R"({"version": 2, "transform": [], "transforms": [
                {"op": "rezise", "height": 4}, 3, {"name": "x"}, {"op": 5},
                {"op": "resize", "heigth": 4, "width": 1.5},
                {"op": "random_crop", "height": 4, "width": 4, "padding": 4},
                {"op": "normalize", "mean": [], "std": [1, 2, "3"]},
                {"op": "horizontal_flip", "probability": "often", "name": 4},
                {"op": "center_crop", "height": 18446744073709551615, "width": {}}]})"),
            R"(Refused: these transforms cannot be read:
  version is 2; this program reads version 1
  transforms[0].op: unknown operation 'rezise'; did you mean 'resize'? known: resize, center_crop, random_crop, random_resized_crop, horizontal_flip, vertical_flip, rotate, affine, gaussian_blur, color_jitter, grayscale, random_erasing, random_mask, convert_color, scale, to_float, normalize, mixup, cutmix, one_hot
  transforms[1] must be an object, not 3
  transforms[2].op is missing
  transforms[3].op must be a string, not 5
  transforms[4].height is missing
  transforms[4].width must be a whole number, not 1.5
  transforms[4].heigth: unknown key 'heigth'; did you mean 'height'? known: op, name, height, width, antialias
  transforms[5]: random_crop: the padding is 4; it must be 0 or more, and less than height and width
  transforms[6].mean must be a list of 1 to 4 numbers, not a list of 0
  transforms[6].std[2] must be a number, not "3"
  transforms[7].name must be a string, not 4
  transforms[7].probability must be a number, not "often"
  transforms[8].height must be a whole number, not 18446744073709551615
  transforms[8].width must be a whole number, not an object
  transform: unknown key 'transform'; did you mean 'transforms'? known: version, transforms)");
}

TEST(Chain, NeedsItsVersionAndItsTransforms) {
  EXPECT_EQ(refusal("{}"),
            "Refused: these transforms cannot be read:\n  version is missing\n"
            "  transforms is missing: list the operations");
  EXPECT_THAT(refusal(R"({"version": 1, "transforms": {}})"),
              HasSubstr("transforms must be a list, not an object"));
  EXPECT_THAT(refusal("[]"),
              HasSubstr("the file of transforms must be an object, not a list of 0"));
}

TEST(Chain, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "chain", "1e999", "\xff\xfe"}) {
    EXPECT_THAT(refusal(text), HasSubstr("Refused: transforms must be JSON: ")) << text;
  }
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(refusal(with(deep)), HasSubstr("transforms[0] must be an object, not a list of 1"));
  EXPECT_THAT(refusal(with(R"({"op": "normalize", "std": [1, 1, 1], "mean": )" + deep + "}")),
              HasSubstr("transforms[0].mean[0] must be a number, not a list of 1"));
}

TEST(Chain, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(refusal(with(R"({"op": "resize", "height": 4, "width": 4, "height": 8})")),
              HasSubstr("the key 'height' stands in one object twice"));
  EXPECT_THAT(refusal(R"({"version": 1, "transforms": [], "transforms": []})"),
              HasSubstr("the key 'transforms' stands in one object twice"));
}

/// An operation of a user's own.
struct Keep {
  static constexpr std::string_view kName = "keep";
  struct Drawn {};
  void validate() const {}
  bool touches(FieldKind) const { return false; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind, ConstArray, MutableArray, Scratch&) const {}
};

TEST(Chain, CannotHoldAUsersOwnOperation) {
  EXPECT_EQ(
      thrown_by([] {
        to_json(std::vector<NamedOp>{{"mine", Keep{}}});
      }),
      "Refused: transform 'mine' is 'keep', which a file of transforms cannot hold: it knows the "
      "library's own operations alone");
}

}  // namespace
}  // namespace slipstream
