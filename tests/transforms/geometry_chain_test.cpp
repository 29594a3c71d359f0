#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "transforms/chain_text.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr const char* kGeometry = R"({
  "version": 1,
  "transforms": [
    {
      "name": "small",
      "op": "resize",
      "size": [
        4,
        5
      ],
      "interpolation": "bicubic",
      "antialias": false
    },
    {
      "name": "limited",
      "op": "resize",
      "size": 10,
      "max_size": 12,
      "interpolation": "nearest-exact",
      "antialias": true
    },
    {
      "name": "longer",
      "op": "resize",
      "max_size": 13,
      "interpolation": "bilinear",
      "antialias": true
    },
    {
      "name": "part",
      "op": "random_resized_crop",
      "size": [
        6,
        7
      ],
      "scale": [
        0.1,
        0.2
      ],
      "ratio": [
        1.0,
        2.0
      ],
      "interpolation": "nearest",
      "antialias": false
    },
    {
      "name": "padded",
      "op": "random_crop",
      "size": [
        8,
        9
      ],
      "padding": [
        1,
        2,
        3,
        4
      ],
      "pad_if_needed": true,
      "fill": [
        5.0,
        6.0,
        7.0
      ],
      "padding_mode": "symmetric"
    },
    {
      "name": "frame",
      "op": "pad",
      "padding": 3,
      "fill": 4.0,
      "padding_mode": "reflect"
    },
    {
      "name": "turn",
      "op": "random_rotation",
      "degrees": [
        -30.5,
        45.0
      ],
      "interpolation": "bilinear",
      "fill": 7.0
    },
    {
      "name": "stretch",
      "op": "random_affine",
      "degrees": [
        -1.0,
        2.0
      ],
      "translate": [
        0.1,
        0.2
      ],
      "scale": [
        0.5,
        1.5
      ],
      "shear": [
        -3.0,
        4.0,
        -5.0,
        6.0
      ],
      "interpolation": "bilinear",
      "fill": 8.0
    },
    {
      "name": "soft",
      "op": "gaussian_blur",
      "kernel_size": 9,
      "sigma": [
        0.25,
        2.5
      ]
    }
  ]
}
)";

TEST(GeometryChain, ReadsEveryGeometryKey) {
  const auto chain = parse_chain(kGeometry);
  ASSERT_EQ(chain.size(), 9u);
  EXPECT_FALSE(chain[0].op.get_if<Resize>()->antialias);
  EXPECT_EQ(chain[0].op.get_if<Resize>()->interpolation, Interpolation::bicubic);
  const Resize& limited = *chain[1].op.get_if<Resize>();
  EXPECT_EQ(limited.size.shorter_side, 10);
  EXPECT_EQ(limited.size.max_size, 12);
  EXPECT_EQ(limited.interpolation, Interpolation::nearest_exact);
  EXPECT_EQ(chain[2].op.get_if<Resize>()->size.shorter_side, 0);
  EXPECT_EQ(chain[2].op.get_if<Resize>()->size.max_size, 13);
  EXPECT_FALSE(chain[3].op.get_if<RandomResizedCrop>()->antialias);
  EXPECT_EQ(chain[3].op.get_if<RandomResizedCrop>()->interpolation, Interpolation::nearest);
  const RandomCrop& padded = *chain[4].op.get_if<RandomCrop>();
  EXPECT_EQ(padded.padding, Padding(1, 2, 3, 4));
  EXPECT_TRUE(padded.pad_if_needed);
  EXPECT_EQ(padded.fill, (std::vector<double>{5, 6, 7}));
  EXPECT_EQ(padded.padding_mode, PaddingMode::symmetric);
  const Pad& frame = *chain[5].op.get_if<Pad>();
  EXPECT_EQ(frame.padding, Padding(3));
  EXPECT_EQ(frame.fill, (std::vector<double>{4}));
  EXPECT_EQ(frame.padding_mode, PaddingMode::reflect);
  const auto* rotate = chain[6].op.get_if<RandomRotation>();
  EXPECT_EQ(rotate->degrees[0], -30.5);
  EXPECT_EQ(rotate->degrees[1], 45);
  EXPECT_EQ(rotate->interpolation, Interpolation::bilinear);
  EXPECT_EQ(rotate->fill, 7);
  const auto* affine = chain[7].op.get_if<RandomAffine>();
  EXPECT_EQ(affine->degrees[0], -1);
  EXPECT_EQ(affine->degrees[1], 2);
  EXPECT_EQ(affine->translate[0], 0.1);
  EXPECT_EQ(affine->translate[1], 0.2);
  EXPECT_EQ(affine->scale[0], 0.5);
  EXPECT_EQ(affine->scale[1], 1.5);
  EXPECT_EQ(affine->shear[0], -3);
  EXPECT_EQ(affine->shear[1], 4);
  EXPECT_EQ(affine->shear[2], -5);
  EXPECT_EQ(affine->shear[3], 6);
  EXPECT_EQ(affine->interpolation, Interpolation::bilinear);
  EXPECT_EQ(affine->fill, 8);
  const auto* blur = chain[8].op.get_if<GaussianBlur>();
  EXPECT_EQ(blur->kernel_size, 9);
  EXPECT_EQ(blur->sigma[0], 0.25);
  EXPECT_EQ(blur->sigma[1], 2.5);
}

TEST(GeometryChain, WritesEveryGeometryKey) {
  EXPECT_EQ(to_json_text(parse_chain(kGeometry)), kGeometry);
}

TEST(GeometryChain, MissingKeysUseDefaults) {
  const auto chain = parse_chain(with(R"({"op": "resize", "size": [4, 4]},
      {"op": "random_rotation", "degrees": [0, 9], "interpolation": "nearest"},
      {"op": "random_affine", "degrees": 0}, {"op": "gaussian_blur", "kernel_size": 5},
      {"op": "to_dtype", "dtype": "float32"})"));
  EXPECT_TRUE(chain[0].op.get_if<Resize>()->antialias);
  EXPECT_EQ(chain[1].op.get_if<RandomRotation>()->interpolation, Interpolation::nearest);
  EXPECT_EQ(chain[1].op.get_if<RandomRotation>()->fill, 0);
  EXPECT_FALSE(chain[2].op.is_random());
  EXPECT_EQ(chain[3].op.get_if<GaussianBlur>()->sigma, (std::array{0.1, 2.0}));
  EXPECT_FALSE(chain[4].op.get_if<ToDtype>()->scale);
}

TEST(GeometryChain, SingleNumberIsExpandedAsInTorchvision) {
  const auto chain = parse_chain(with(R"({"op": "resize", "size": 256},
      {"op": "center_crop", "size": 224}, {"op": "random_rotation", "degrees": 30},
      {"op": "random_affine", "degrees": 15.5, "shear": 8},
      {"op": "random_affine", "name": "along x", "degrees": [0, 1], "shear": [-8, 4]},
      {"op": "gaussian_blur", "kernel_size": [5, 5], "sigma": 1.5})"));
  EXPECT_EQ(chain[0].op.get_if<Resize>()->size, ResizedSize(256));
  EXPECT_EQ(chain[1].op.get_if<CenterCrop>()->size, Size(224, 224));
  EXPECT_EQ(chain[2].op.get_if<RandomRotation>()->degrees, (std::array{-30.0, 30.0}));
  EXPECT_EQ(chain[3].op.get_if<RandomAffine>()->degrees, (std::array{-15.5, 15.5}));
  EXPECT_EQ(chain[3].op.get_if<RandomAffine>()->shear, (std::array{-8.0, 8.0, 0.0, 0.0}));
  EXPECT_EQ(chain[4].op.get_if<RandomAffine>()->shear, (std::array{-8.0, 4.0, 0.0, 0.0}));
  EXPECT_EQ(chain[5].op.get_if<GaussianBlur>()->kernel_size, 5);
  EXPECT_EQ(chain[5].op.get_if<GaussianBlur>()->sigma, (std::array{1.5, 1.5}));
  EXPECT_EQ(to_json_text(parse_chain(to_json_text(chain))), to_json_text(chain));
  EXPECT_THAT(to_json_text(chain), HasSubstr("\"size\": 256,"));
}

TEST(GeometryChain, ListOfOneNumberEqualsTheNumber) {
  const auto chain = parse_chain(with(R"({"op": "resize", "size": [256]},
      {"op": "center_crop", "size": [32]}, {"op": "random_crop", "size": [33]},
      {"op": "random_resized_crop", "size": [34]}, {"op": "gaussian_blur", "kernel_size": [5]})"));
  EXPECT_EQ(chain[0].op.get_if<Resize>()->size, ResizedSize(256));
  EXPECT_EQ(chain[1].op.get_if<CenterCrop>()->size, Size(32, 32));
  EXPECT_EQ(chain[2].op.get_if<RandomCrop>()->size, Size(33, 33));
  EXPECT_EQ(chain[3].op.get_if<RandomResizedCrop>()->size, Size(34, 34));
  EXPECT_EQ(chain[4].op.get_if<GaussianBlur>()->kernel_size, 5);
  EXPECT_EQ(refusal(with(R"({"op": "resize", "size": []}, {"op": "center_crop", "size": ["4"]})")),
            R"(Refused: these transforms cannot be read:
  transforms[0].size must be [height, width] or a whole number, the length of the shorter side, not a list of 0
  transforms[1].size[0] must be a whole number, not "4")");
}

TEST(GeometryChain, InvalidPairsAndSizesAreReported) {
  EXPECT_EQ(refusal(with(R"({"op": "random_rotation", "degrees": -30},
                {"op": "random_rotation", "degrees": [0, "9"]},
                {"op": "random_rotation", "degrees": [1, 2, 3]},
                {"op": "random_affine", "degrees": "left", "translate": 0.1, "shear": [1, 2, 3]},
                {"op": "random_affine", "degrees": 1, "shear": [1, 2, null, 4]},
                {"op": "random_affine", "degrees": 1, "shear": -1},
                {"op": "gaussian_blur", "kernel_size": [3, 5]},
                {"op": "center_crop", "size": [4, 5, 6]}, {"op": "center_crop", "size": [4, 5.5]},
                {"op": "resize", "size": "224"}, {"op": "resize", "size": 0},
                {"op": "to_dtype", "dtype": "uint8"},
                {"op": "grayscale"}, {"op": "grayscale", "num_output_channels": 1},
                {"op": "horizontal_flip"}, {"op": "random_resized_crop", "height": 4})")),
            R"(Refused: these transforms cannot be read:
  transforms[0].degrees must be a number of 0 or more, or a list of 2 numbers, not -30
  transforms[1].degrees[1] must be a number, not "9"
  transforms[2].degrees must be a number or a list of 2 numbers, not a list of 3
  transforms[3].degrees must be a number or a list of 2 numbers, not "left"
  transforms[3].translate must be a list of 2 numbers, not 0.1
  transforms[3].shear must be a number or a list of 2 or 4 numbers, not a list of 3
  transforms[4].shear[2] must be a number, not null
  transforms[5].shear must be a number of 0 or more, or a list of 2 numbers, not -1
  transforms[6].kernel_size is 3 and 5; the two must be equal
  transforms[7].size must be a whole number or [height, width], not a list of 3
  transforms[8].size[1] must be a whole number, not 5.5
  transforms[9].size must be [height, width] or a whole number, the length of the shorter side, not "224"
  transforms[10]: resize to 0 x 0: height and width must be 1 to 65536
  transforms[11].dtype must be "float32", not "uint8"
  transforms[12].num_output_channels is missing
  transforms[13]: grayscale: num_output_channels is 1; it must be 3, because images keep their channels: write 3, and all channels become gray
  transforms[14].op: unknown operation 'horizontal_flip'; did you mean 'random_horizontal_flip'? known: resize, center_crop, random_crop, pad, random_resized_crop, random_horizontal_flip, random_vertical_flip, random_rotation, random_affine, gaussian_blur, color_jitter, grayscale, random_grayscale, random_invert, random_posterize, random_solarize, random_adjust_sharpness, random_autocontrast, random_equalize, random_apply, random_choice, rand_augment, trivial_augment_wide, auto_augment, random_erasing, random_mask, convert_color, divide, to_dtype, normalize, mixup, cutmix, one_hot
  transforms[15].size is missing
  transforms[15].height: unknown key 'height'; known: op, name, size, scale, ratio, interpolation, antialias)");
}

TEST(GeometryChain, AcceptsTorchvisionKeysWithNeutralValues) {
  const std::string plain = to_json_text(parse_chain(with(R"({"op": "resize", "size": 40},
      {"op": "random_crop", "size": 32}, {"op": "random_resized_crop", "size": 24},
      {"op": "random_rotation", "degrees": 9}, {"op": "random_affine", "degrees": 9},
      {"op": "color_jitter"}, {"op": "random_erasing"},
      {"op": "normalize", "mean": [0.5], "std": [0.5]}, {"op": "mixup"}, {"op": "one_hot"})")));
  EXPECT_EQ(to_json_text(parse_chain(with(
                R"({"op": "resize", "size": 40, "interpolation": "bilinear", "max_size": null,
       "antialias": true},
      {"op": "random_crop", "size": 32, "padding": null, "pad_if_needed": false, "fill": 0,
       "padding_mode": "constant"},
      {"op": "random_resized_crop", "size": 24, "interpolation": "bilinear", "antialias": true},
      {"op": "random_rotation", "degrees": 9, "interpolation": "nearest", "expand": false,
       "center": null, "fill": 0},
      {"op": "random_affine", "degrees": 9, "translate": null, "scale": null, "shear": null,
       "interpolation": "nearest", "fill": 0, "center": null},
      {"op": "color_jitter", "brightness": null, "contrast": null, "saturation": null,
       "hue": null},
      {"op": "random_erasing", "inplace": false},
      {"op": "normalize", "mean": [0.5], "std": [0.5], "inplace": false},
      {"op": "mixup", "num_classes": null, "labels_getter": "default"}, {"op": "one_hot"})"))),
            plain);
}

TEST(GeometryChain, InterpolationIsGivenByNameOrByPilNumber) {
  const auto read = [](const std::string& value) {
    const auto chain = parse_chain(
        with(R"({"op": "resize", "size": null, "max_size": 4, "interpolation": )" + value + "}"));
    return chain[0].op.get_if<Resize>()->interpolation;
  };
  for (const char* name : {"\"nearest\"", "0"}) EXPECT_EQ(read(name), Interpolation::nearest);
  for (const char* name : {"\"nearest-exact\"", "\"nearest_exact\""})
    EXPECT_EQ(read(name), Interpolation::nearest_exact);
  for (const char* name : {"\"bilinear\"", "2"}) EXPECT_EQ(read(name), Interpolation::bilinear);
  for (const char* name : {"\"bicubic\"", "3"}) EXPECT_EQ(read(name), Interpolation::bicubic);
}

TEST(GeometryChain, PaddingIsReadAsInTorchvision) {
  const auto read = [](const std::string& value) {
    const auto chain =
        parse_chain(with(R"({"op": "pad", "fill": null, "padding": )" + value + "}"));
    return chain[0].op.get_if<Pad>()->padding;
  };
  EXPECT_EQ(read("3"), Padding(3));
  EXPECT_EQ(read("[3]"), Padding(3));
  EXPECT_EQ(read("[1, 2]"), Padding(1, 2, 1, 2)) << "left and right, top and bottom";
  EXPECT_EQ(read("[1, 2, 3, 4]"), Padding(1, 2, 3, 4));
}

TEST(GeometryChain, InvalidPaddingIsReported) {
  EXPECT_EQ(refusal(with(R"({"op": "pad", "padding": [1, 2, 3]}, {"op": "pad"},
                {"op": "pad", "name": "a", "padding": [1, "2"], "fill": "red"},
                {"op": "random_crop", "size": 4, "padding": 1.5, "padding_mode": "mirror"},
                {"op": "pad", "name": "b", "padding": -1, "fill": [1, 2, 3, 4, 5]},
                {"op": "pad", "name": "c", "padding": -1})")),
            R"(Refused: these transforms cannot be read:
  transforms[0].padding must be a whole number or a list of 1, 2 or 4 (left, top, right, bottom), not a list of 3
  transforms[1].padding is missing
  transforms[2].padding[1] must be a whole number, not "2"
  transforms[2].fill must be a number or a list of 1 to 4 numbers, not "red"
  transforms[3].padding must be a whole number or a list of 1, 2 or 4 (left, top, right, bottom), not 1.5
  transforms[3].padding_mode must be constant, edge, reflect or symmetric, not "mirror"
  transforms[4].fill must be a number or a list of 1 to 4 numbers, not a list of 5
  transforms[5]: pad: the padding is -1; it must be 0 to 65536)");
}

TEST(GeometryChain, UnsupportedTorchvisionValuesAreReported) {
  EXPECT_EQ(refusal(with(R"({"op": "resize", "size": [40, 30], "max_size": 60},
                {"op": "random_rotation", "degrees": 9, "expand": true},
                {"op": "color_jitter", "hue": "much"}, {"op": "center_crop", "size": 3, "fill": 0},
                {"op": "normalize", "mean": [0.5], "std": null},
                {"op": "mixup", "num_classes": 10}, {"op": "one_hot"})")),
            R"(Refused: these transforms cannot be read:
  transforms[1]: random_rotation: "expand" is true; torchvision supports that value, this program supports only false
  transforms[5]: mixup: "num_classes" is 10; torchvision supports that value, this program supports only null: leave it out, because the number of classes is that of the data or of --classes
  transforms[0]: resize: max_size is 60; it is for a size of one number; leave it out for [height, width]
  transforms[2].hue must be a number or a list of 2 numbers, not "much"
  transforms[3].fill: unknown key 'fill'; known: op, name, size
  transforms[4].std must be a list of 1 to 4 numbers, not null)");
}

TEST(GeometryChain, InvalidGeometryParametersAreReported) {
  EXPECT_EQ(refusal(with(R"({"op": "random_rotation", "interpolation": "bicubic\n", "fill": "red"},
                {"op": "random_affine", "degrees": 0, "interpolation": 1, "scale": [2, 1]},
                {"op": "random_affine", "name": "b", "degrees": 0, "translate": [1.5, 0]},
                {"op": "gaussian_blur", "kernel_size": 3.5},
                {"op": "gaussian_blur", "name": "c", "kernel_size": 4, "sigma": 1},
                {"op": "resize", "size": [4, 4], "antialias": 1},
                {"op": "random_resized_crop", "size": 4, "antialias": "no"},
                {"op": "random_rotation", "name": "d", "degrees": 9, "interpolation": "bicubic"},
                {"op": "resize", "name": "e", "max_size": 0}, {"op": "resize", "name": "f"})")),
            R"(Refused: these transforms cannot be read:
  transforms[0].degrees is missing
  transforms[0].interpolation must be nearest, nearest-exact, bilinear or bicubic, not "bicubic\n"
  transforms[0].fill must be a number, not "red"
  transforms[1].interpolation must be nearest, nearest-exact, bilinear or bicubic, not 1
  transforms[2]: random_affine: translate[0] is 1.5; it must be 0 to 1, a fraction of the image's side
  transforms[3].kernel_size must be a whole number, not 3.5
  transforms[4]: gaussian_blur: kernel_size is 4; it must be odd, 1 to 63
  transforms[5].antialias must be true or false, not 1
  transforms[6].antialias must be true or false, not "no"
  transforms[7]: random_rotation: the interpolation must be nearest or bilinear
  transforms[8].max_size must be a whole number of 1 or more, not 0
  transforms[9].size is missing)");
}

}  // namespace
}  // namespace slipstream
