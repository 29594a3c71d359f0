#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/own_op.h"
#include "support/thrown.h"
#include "transforms/chain_text.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Chain, ReadsEveryOperationWithItsParameters) {
  const auto chain = parse_chain(with(R"(
      {"name": "small", "op": "resize", "size": [64, 48]},
      {"op": "center_crop", "size": [5, 6]},
      {"op": "random_crop", "size": [32, 33], "padding": 4},
      {"op": "random_resized_crop", "size": [224, 225], "scale": [0.1, 0.9], "ratio": [0.5, 2]},
      {"op": "random_horizontal_flip", "p": 0.25},
      {"op": "random_vertical_flip", "p": 1},
      {"op": "to_dtype", "dtype": "float32", "scale": true},
      {"op": "normalize", "mean": [0.485, 0.456, 0], "std": [0.229, 0.224, 1]})"));
  ASSERT_EQ(chain.size(), 8u);
  EXPECT_EQ(chain[0].name, "small");
  EXPECT_EQ(chain[1].name, "center_crop");
  const auto* resize = chain[0].op.get_if<Resize>();
  ASSERT_NE(resize, nullptr);
  EXPECT_EQ(resize->size, ResizedSize(64, 48));
  EXPECT_EQ(chain[1].op.get_if<CenterCrop>()->size, Size(5, 6));
  EXPECT_EQ(chain[2].op.get_if<RandomCrop>()->padding, 4);
  const auto* random = chain[3].op.get_if<RandomResizedCrop>();
  EXPECT_EQ(random->size, Size(224, 225));
  EXPECT_EQ(random->scale[0], 0.1);
  EXPECT_EQ(random->scale[1], 0.9);
  EXPECT_EQ(random->ratio[0], 0.5);
  EXPECT_EQ(random->ratio[1], 2);
  EXPECT_EQ(chain[4].op.get_if<RandomHorizontalFlip>()->p, 0.25);
  EXPECT_EQ(chain[5].op.get_if<RandomVerticalFlip>()->p, 1);
  EXPECT_TRUE(chain[6].op.get_if<ToDtype>()->scale);
  const auto* normalize = chain[7].op.get_if<Normalize>();
  EXPECT_EQ(normalize->mean[1], 0.456);
  EXPECT_EQ(normalize->std[2], 1);
}

TEST(Chain, WritesTheDocumentedJsonLayout) {
  const std::vector<NamedOp> chain = {{"crop", RandomResizedCrop{{224, 192}}},
                                      {"scale", Normalize{{0.485, 0, 1}, {0.229, 1, 2}}}};
  EXPECT_EQ(to_json_text(chain), R"({
  "version": 1,
  "transforms": [
    {
      "name": "crop",
      "op": "random_resized_crop",
      "size": [
        224,
        192
      ],
      "scale": [
        0.08,
        1.0
      ],
      "ratio": [
        0.75,
        1.3333333333333333
      ],
      "interpolation": "bilinear",
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

// Uses every key, with a value that differs from the default.
TEST(Chain, RoundTripKeepsOperationsAndNames) {
  const std::vector<NamedOp> chain = {{"a", Resize{{3, 4}}},
                                      {"b", CenterCrop{2}},
                                      {"\xc3\xa9\n\"", RandomCrop{{2, 1}}},
                                      {"d", RandomHorizontalFlip{0.1}},
                                      {"e", RandomVerticalFlip{1.0 / 3}},
                                      {"f", ToDtype{.scale = true}},
                                      {"g", Normalize{}}};
  const auto read = parse_chain(to_json_text(chain));
  EXPECT_EQ(to_json_text(read), to_json_text(chain));
  ASSERT_EQ(read.size(), chain.size());
  EXPECT_EQ(read[2].name, chain[2].name);
  EXPECT_EQ(read[4].op.get_if<RandomVerticalFlip>()->p, 1.0 / 3);
  EXPECT_TRUE(parse_chain(to_json_text(std::vector<NamedOp>{})).empty());
}

TEST(Chain, AllProblemsAreReportedWithTheirPaths) {
  EXPECT_EQ(refusal(R"({"version": 2, "transform": [], "transforms": [
                {"op": "rezise", "height": 4}, 3, {"name": "x"}, {"op": 5},
                {"op": "resize", "sise": 4, "antialias": 1.5},
                {"op": "random_crop", "size": 4, "padding": -4},
                {"op": "normalize", "mean": [], "std": [1, 2, "3"]},
                {"op": "random_horizontal_flip", "p": "often", "name": 4},
                {"op": "center_crop", "size": [18446744073709551615, {}]}]})"),
            R"(Refused: these transforms cannot be read:
  version is 2; this program reads version 1
  transforms[0].op: unknown operation 'rezise'; did you mean 'resize'? known: resize, center_crop, random_crop, pad, random_resized_crop, random_horizontal_flip, random_vertical_flip, random_rotation, random_affine, gaussian_blur, color_jitter, grayscale, random_grayscale, random_invert, random_posterize, random_solarize, random_adjust_sharpness, random_autocontrast, random_equalize, random_apply, random_choice, rand_augment, trivial_augment_wide, auto_augment, random_erasing, random_mask, convert_color, divide, to_dtype, normalize, mixup, cutmix, one_hot
  transforms[1] must be an object, not 3
  transforms[2].op is missing
  transforms[3].op must be a string, not 5
  transforms[4].size is missing
  transforms[4].antialias must be true or false, not 1.5
  transforms[4].sise: unknown key 'sise'; did you mean 'size'? known: op, name, max_size, size, interpolation, antialias
  transforms[5]: random_crop: the padding is -4; it must be 0 to 65536
  transforms[6].mean must be a list of 1 to 4 numbers, not a list of 0
  transforms[6].std[2] must be a number, not "3"
  transforms[7].name must be a string, not 4
  transforms[7].p must be a number, not "often"
  transforms[8].size[0] must be a whole number, not 18446744073709551615
  transforms[8].size[1] must be a whole number, not an object
  transform: unknown key 'transform'; did you mean 'transforms'? known: version, transforms)");
}

TEST(Chain, ToTensorIsRefusedWithExplanation) {
  EXPECT_THAT(
      refusal(with(R"({"op": "to_tensor"})")),
      HasSubstr("transforms[0].op: there is no 'to_tensor', because batches are tensors already"));
}

TEST(Chain, MissingVersionOrTransformsIsRefused) {
  EXPECT_EQ(refusal("{}"),
            "Refused: these transforms cannot be read:\n  version is missing\n"
            "  transforms is missing: list the operations");
  EXPECT_THAT(refusal(R"({"version": 1, "transforms": {}})"),
              HasSubstr("transforms must be a list, not an object"));
  EXPECT_THAT(refusal("[]"),
              HasSubstr("the file of transforms must be an object, not a list of 0"));
}

TEST(Chain, InvalidOrDeeplyNestedJsonIsRefused) {
  for (const char* text : {"", "{", "chain", "1e999", "\xff\xfe"}) {
    EXPECT_THAT(refusal(text), HasSubstr("Refused: these transforms must be JSON: ")) << text;
  }
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(refusal(with(deep)), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal(with(R"({"op": "normalize", "std": [1, 1, 1], "mean": )" + deep + "}")),
              HasSubstr("nested too deeply"));
}

TEST(Chain, DuplicateKeyIsRefused) {
  EXPECT_THAT(refusal(with(R"({"op": "resize", "size": [4, 4], "size": 8})")),
              HasSubstr("the key 'size' occurs twice in one object"));
  EXPECT_THAT(refusal(R"({"version": 1, "transforms": [], "transforms": []})"),
              HasSubstr("the key 'transforms' occurs twice in one object"));
}

struct Keep : OwnOp {
  static constexpr std::string_view kName = "keep";
};

/// Produces one row, whose length is the first value of the image.
struct Unroll : OwnOp {
  static constexpr std::string_view kName = "unroll";

  FieldSpec output(const FieldSpec& in) const {
    FieldSpec out = in;
    out.shape = {1, -1, 1};
    return out;
  }
  void make(Drawn, FieldKind, ConstArray in, HostArray& out) const {
    const auto length = static_cast<std::int64_t>(*in.as<std::uint8_t>());
    const MutableArray made = out.reset(DType::uint8, {1, length, 1});
    std::fill_n(made.as<std::uint8_t>(), length, std::uint8_t{7});
  }
};

TEST(Chain, OperationMayDetermineItsOutputShape) {
  const std::vector<NamedOp> chain = {{"a", Keep{}}, {"b", Unroll{}}, {"c", Keep{}}};
  EXPECT_TRUE(chain[1].op.finds_shape());
  EXPECT_FALSE(chain[0].op.finds_shape());
  const std::vector<FieldSpec> specs = {{"image", FieldKind::image, DType::uint8, {2, 2, 1}}};
  Sample sample;
  sample.fields.resize(1);
  std::fill_n(sample.fields[0].array.reset(DType::uint8, {2, 2, 1}).as<std::uint8_t>(), 4,
              std::uint8_t{5});
  std::vector<HostArray> spare(1);
  Scratch scratch;
  chain[1].op.apply(RandomKey{}, specs, sample, spare, scratch);
  EXPECT_EQ(sample.fields[0].array.view().shape, (Shape{1, 5, 1}));
  EXPECT_EQ(sample.fields[0].array.view().as<std::uint8_t>()[4], 7);
  // Operations after it have the same random numbers as in a chain without it.
  EXPECT_EQ(key_number(chain, 0), 0u);
  EXPECT_EQ(key_number(chain, 1), 1u);
  EXPECT_EQ(key_number(chain, 2), 1u);
}

TEST(Chain, CustomOperationIsRefusedInJson) {
  EXPECT_EQ(
      thrown_by([] {
        to_json_text(std::vector<NamedOp>{{"mine", Keep{}}});
      }),
      "Refused: transform 'mine' is 'keep', which a file of transforms cannot hold: it supports "
      "only the library's own operations");
}

/// A random operation that converts uint8 to float32.
struct Converts : OwnOp {
  static constexpr std::string_view kName = "converts";
  bool is_random() const { return true; }
  FieldSpec output(const FieldSpec& in) const {
    FieldSpec out = in;
    out.dtype = DType::float32;
    return out;
  }
};

struct ConvertsInEvaluation : Converts {
  static constexpr std::string_view kName = "converts_in_evaluation";
  std::optional<AnyOp> for_evaluation() const { return ToDtype{DType::float32, true}; }
};

struct StaysRandom : Converts {
  static constexpr std::string_view kName = "stays_random";
  std::optional<AnyOp> for_evaluation() const { return Converts(); }
};

TEST(EvaluationTransforms, RandomOperationsAreReplacedByTheirEvaluationForm) {
  const auto kept = evaluation_transforms({{"crop", RandomCrop{{4, 5}, 1}},
                                           {"flip", RandomHorizontalFlip{}},
                                           {"always", RandomVerticalFlip{1}},
                                           {"convert", ConvertsInEvaluation()}});
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].op.get_if<CenterCrop>()->size, Size(4, 5));
  EXPECT_NE(kept[1].op.get_if<RandomVerticalFlip>(), nullptr);
  EXPECT_EQ(kept[2].name, "convert");
  EXPECT_TRUE(kept[2].op.get_if<ToDtype>()->scale);
}

TEST(EvaluationTransforms, RandomOperationWithoutEvaluationFormIsRefused) {
  EXPECT_THAT(
      thrown_by([] {
        evaluation_transforms({{"convert", Converts()}});
      }),
      AllOf(HasSubstr("Refused: "), HasSubstr("'converts'"), HasSubstr("for_evaluation()")));
  EXPECT_THAT(thrown_by([] {
                evaluation_transforms({{"convert", StaysRandom()}});
              }),
              AllOf(HasSubstr("'stays_random'"), HasSubstr("random, 'converts'")));
}

}  // namespace
}  // namespace slipstream
