#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/chain_text.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

TEST(ColorChain, ReadsEveryParameter) {
  const auto chain = parse_chain(with(R"(
      {"op": "color_jitter", "brightness": [0.6, 1.4], "contrast": [0.7, 1.3],
       "saturation": [0.8, 1.2], "hue": [-0.1, 0.2]},
      {"op": "random_grayscale", "p": 0.25},
      {"op": "random_erasing", "p": 0.75, "scale": [0.1, 0.2],
       "ratio": [0.5, 2], "value": 7},
      {"op": "random_mask", "p": 0.125, "dilate": false},
      {"op": "convert_color", "matrix": [1, 2, 3, 4, 5, 6, 7, 8, 9], "offset": [10, 11, 12]},
      {"op": "divide", "divisor": 2},
      {"op": "normalize", "mean": [0.5], "std": [0.25]},
      {"name": "four", "op": "normalize", "mean": [1, 2, 3, 4], "std": [5, 6, 7, 8]})"));
  ASSERT_EQ(chain.size(), 8u);
  const auto* jitter = chain[0].op.get_if<ColorJitter>();
  ASSERT_NE(jitter, nullptr);
  EXPECT_EQ(jitter->brightness[0], 0.6);
  EXPECT_EQ(jitter->brightness[1], 1.4);
  EXPECT_EQ(jitter->contrast[0], 0.7);
  EXPECT_EQ(jitter->contrast[1], 1.3);
  EXPECT_EQ(jitter->saturation[0], 0.8);
  EXPECT_EQ(jitter->saturation[1], 1.2);
  EXPECT_EQ(jitter->hue[0], -0.1);
  EXPECT_EQ(jitter->hue[1], 0.2);
  EXPECT_EQ(chain[1].op.get_if<RandomGrayscale>()->p, 0.25);
  const auto* erasing = chain[2].op.get_if<RandomErasing>();
  EXPECT_EQ(erasing->p, 0.75);
  EXPECT_EQ(erasing->scale[0], 0.1);
  EXPECT_EQ(erasing->scale[1], 0.2);
  EXPECT_EQ(erasing->ratio[0], 0.5);
  EXPECT_EQ(erasing->ratio[1], 2);
  EXPECT_EQ(erasing->value, 7);
  EXPECT_EQ(chain[3].op.get_if<RandomMask>()->p, 0.125);
  EXPECT_FALSE(chain[3].op.get_if<RandomMask>()->dilate);
  const auto* convert = chain[4].op.get_if<ConvertColor>();
  EXPECT_EQ(convert->matrix, (std::array<double, 9>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(convert->offset, (std::array<double, 3>{10, 11, 12}));
  EXPECT_EQ(chain[5].op.get_if<Divide>()->divisor, 2);
  EXPECT_EQ(chain[6].op.get_if<Normalize>()->mean, std::vector<double>{0.5});
  EXPECT_EQ(chain[7].op.get_if<Normalize>()->std, (std::vector<double>{5, 6, 7, 8}));
  EXPECT_EQ(to_json_text(parse_chain(to_json_text(chain))), to_json_text(chain));
}

TEST(ColorChain, MissingKeysUseDefaults) {
  const auto chain = parse_chain(with(R"({"op": "color_jitter"}, {"op": "random_grayscale"},
      {"op": "random_erasing"}, {"op": "random_mask"}, {"op": "convert_color"}, {"op": "divide"})"));
  const std::vector<NamedOp> defaults = {
      {"color_jitter", ColorJitter{}},     {"random_grayscale", RandomGrayscale{}},
      {"random_erasing", RandomErasing{}}, {"random_mask", RandomMask{}},
      {"convert_color", ConvertColor{}},   {"divide", Divide{}}};
  EXPECT_EQ(to_json_text(chain), to_json_text(defaults));
}

TEST(ColorChain, SingleNumberIsExpandedAsInTorchvision) {
  const auto chain = parse_chain(with(R"({"op": "color_jitter", "brightness": 0.5,
      "contrast": 1.5, "saturation": [0.5, 1], "hue": 0.25})"));
  const auto* jitter = chain[0].op.get_if<ColorJitter>();
  EXPECT_EQ(jitter->brightness, (std::array{0.5, 1.5}));
  EXPECT_EQ(jitter->contrast, (std::array{0.0, 2.5}));
  EXPECT_EQ(jitter->saturation, (std::array{0.5, 1.0}));
  EXPECT_EQ(jitter->hue, (std::array{-0.25, 0.25}));
}

TEST(ColorChain, InvalidColorParametersAreReported) {
  EXPECT_THAT(chain_refusal(R"({"op": "color_jitter", "brightness": -1})"),
              HasSubstr("transforms[0].brightness must be a number of 0 or more, or a list of 2 "
                        "numbers, not -1"));
  EXPECT_THAT(chain_refusal(R"({"op": "color_jitter", "hue": [0, 0.7]})"),
              HasSubstr("transforms[0]: color_jitter: the hue is 0 to 0.7"));
  EXPECT_THAT(chain_refusal(R"({"op": "random_mask", "dilate": 1})"),
              HasSubstr("transforms[0].dilate must be true or false, not 1"));
  EXPECT_THAT(
      chain_refusal(
          R"({"op": "to_dtype", "dtype": "float32", "scale": true}, {"op": "random_horizontal_flip"},
                         {"op": "convert_color", "name": "ycbcr"})"),
      HasSubstr("transform 'ycbcr' (convert_color): its offset is for levels of 0 to 255, "
                "but 'to_dtype' has made the images 0 to 1"));
  EXPECT_THAT(chain_refusal(R"({"op": "divide"}, {"op": "convert_color"})"),
              HasSubstr("'divide' has made the images 0 to 1; put it before that, or divide"));
  EXPECT_THAT(chain_refusal(R"({"op": "normalize", "mean": [127.5], "std": [51]},
                         {"op": "convert_color"})"),
              HasSubstr("'normalize' has made the images at most 2.5; put it before that, or "
                        "give an offset in the same unit"));
  EXPECT_THAT(chain_refusal(R"({"op": "normalize", "mean": [0.485, 0.456, 0.406],
                          "std": [0.229, 0.224, 0.225]}, {"op": "convert_color"})"),
              HasSubstr("'normalize' has made the images at most 2.64"));
  EXPECT_NO_THROW(
      parse_chain(with(R"({"op": "to_dtype", "dtype": "float32"}, {"op": "convert_color"})")));
  EXPECT_THAT(chain_refusal(R"({"op": "divide"}, {"op": "to_dtype", "dtype": "float32"},
                         {"op": "convert_color"})"),
              HasSubstr("'divide' has made the images 0 to 1"));
  EXPECT_NO_THROW(parse_chain(with(R"({"op": "divide", "divisor": 2}, {"op": "convert_color"})")));
  EXPECT_NO_THROW(parse_chain(with(R"({"op": "normalize", "mean": [127.5], "std": [1]},
                                      {"op": "convert_color"})")));
  EXPECT_NO_THROW(parse_chain(with(
      R"({"op": "to_dtype", "dtype": "float32", "scale": true}, {"op": "divide", "divisor": 0.00392},
                                      {"op": "convert_color"})")));
  EXPECT_NO_THROW(parse_chain(with(R"({"op": "to_dtype", "dtype": "float32", "scale": true},
                                      {"op": "convert_color", "offset": [0, 0.5, 0.5]})")));
  EXPECT_THAT(chain_refusal(R"({"op": "color_jitter", "brightness": [2, 1], "hue": [0, 0.7]})"),
              testing::AllOf(HasSubstr("transforms[0]: color_jitter: the brightness is 2 to 1"),
                             HasSubstr("\n  transforms[0]: color_jitter: the hue is 0 to 0.7")));
  EXPECT_THAT(chain_refusal(R"({"op": "convert_color", "matrix": [1, 0, 0], "offset": [0, 0]})"),
              HasSubstr("transforms[0].matrix must be a list of 9 numbers, not a list of 3\n"
                        "  transforms[0].offset must be a list of 3 numbers, not a list of 2"));
  EXPECT_THAT(chain_refusal(R"({"op": "normalize", "mean": [], "std": [1, 2, 3, 4, 5]})"),
              HasSubstr("transforms[0].mean must be a list of 1 to 4 numbers, not a list of 0\n"
                        "  transforms[0].std must be a list of 1 to 4 numbers, not a list of 5"));
  EXPECT_THAT(chain_refusal(R"({"op": "normalize", "mean": [0, null], "std": [1, 2]})"),
              HasSubstr("transforms[0].mean[1] must be a number, not null"));
  EXPECT_THAT(chain_refusal(R"({"op": "normalize", "mean": [1, 2], "std": [1, 2, 3]})"),
              HasSubstr("transforms[0]: normalize: mean is 1, 2, std is 1, 2, 3; "
                        "each must have one number"));
}

}  // namespace
}  // namespace slipstream
