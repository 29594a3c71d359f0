#include "slipstream/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/resize.h"
#include "slipstream/transforms.h"
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
      {"op": "centre_crop", "height": 5, "width": 6},
      {"op": "random_crop", "height": 32, "width": 33, "padding": 4},
      {"op": "random_resized_crop", "height": 224, "width": 225, "scale_min": 0.1,
       "scale_max": 0.9, "ratio_min": 0.5, "ratio_max": 2},
      {"op": "horizontal_flip", "probability": 0.25},
      {"op": "vertical_flip", "probability": 1},
      {"op": "to_float"},
      {"op": "normalise", "mean": [0.485, 0.456, 0], "std": [0.229, 0.224, 1]})"));
  ASSERT_EQ(chain.size(), 8u);
  EXPECT_EQ(chain[0].name, "small");
  EXPECT_EQ(chain[1].name, "centre_crop");
  const auto* resize = chain[0].op.get_if<Resize>();
  ASSERT_NE(resize, nullptr);
  EXPECT_EQ(resize->height, 64);
  EXPECT_EQ(resize->width, 48);
  EXPECT_EQ(chain[1].op.get_if<CentreCrop>()->width, 6);
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
  const auto* normalise = chain[7].op.get_if<Normalise>();
  EXPECT_EQ(normalise->mean[1], 0.456);
  EXPECT_EQ(normalise->std[2], 1);
}

TEST(Chain, HasOneLayout) {
  const std::vector<NamedOp> chain = {{"crop", RandomResizedCrop{224, 192}},
                                      {"scale", Normalise{{0.485, 0, 1}, {0.229, 1, 2}}}};
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
      "ratio_max": 1.3333333333333333
    },
    {
      "name": "scale",
      "op": "normalise",
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

TEST(Chain, SurvivesWritingAndReading) {
  const std::vector<NamedOp> chain = {
      {"a", Resize{3, 4}},        {"b", CentreCrop{2, 2}},      {"\xc3\xa9\n\"", RandomCrop{2, 1}},
      {"d", HorizontalFlip{0.1}}, {"e", VerticalFlip{1.0 / 3}}, {"f", ToFloat{}},
      {"g", Normalise{}}};
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
                {"op": "normalise", "mean": [1, 2], "std": [1, 2, "3"]},
                {"op": "horizontal_flip", "probability": "often", "name": 4},
                {"op": "centre_crop", "height": 18446744073709551615, "width": {}}]})"),
            R"(Refused: this chain cannot be read:
  version is 2; this program reads version 1
  transforms[0].op: unknown operation 'rezise'; did you mean 'resize'? known: resize, centre_crop, random_crop, random_resized_crop, horizontal_flip, vertical_flip, to_float, normalise
  transforms[1] must be an object, not 3
  transforms[2].op is missing
  transforms[3].op must be a string, not 5
  transforms[4].height is missing
  transforms[4].width must be a whole number, not 1.5
  transforms[4].heigth: unknown key 'heigth'; did you mean 'height'? known: op, name, height, width
  transforms[5]: random_crop: the padding is 4; it must be 0 or more, and less than height and width
  transforms[6].mean must be a list of 3 numbers, not an array
  transforms[6].std must be a list of 3 numbers, not an array
  transforms[7].name must be a string, not 4
  transforms[7].probability must be a number, not "often"
  transforms[8].height must be a whole number, not 18446744073709551615
  transforms[8].width must be a whole number, not an object
  transform: unknown key 'transform'; did you mean 'transforms'? known: version, transforms)");
}

TEST(Chain, NeedsItsVersionAndItsTransforms) {
  EXPECT_EQ(refusal("{}"),
            "Refused: this chain cannot be read:\n  version is missing\n"
            "  transforms is missing: list the operations");
  EXPECT_THAT(refusal(R"({"version": 1, "transforms": {}})"),
              HasSubstr("transforms must be a list, not an object"));
  EXPECT_THAT(refusal("[]"), HasSubstr("a chain must be an object, not an array"));
}

TEST(Chain, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "chain", "1e999", "\xff\xfe"}) {
    EXPECT_THAT(refusal(text), HasSubstr("Refused: a chain must be JSON: ")) << text;
  }
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(refusal(with(deep)), HasSubstr("transforms[0] must be an object, not an array"));
  EXPECT_THAT(refusal(with(R"({"op": "normalise", "std": [1, 1, 1], "mean": )" + deep + "}")),
              HasSubstr("transforms[0].mean must be a list of 3 numbers, not an array"));
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
  EXPECT_EQ(thrown_by([] {
              to_json(std::vector<NamedOp>{{"mine", Keep{}}});
            }),
            "Refused: transform 'mine' is 'keep', which a chain file cannot hold: it knows the "
            "library's own operations alone");
}

}  // namespace
}  // namespace slipstream
