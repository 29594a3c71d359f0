#include "slipstream/transforms/op.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/own_op.h"
#include "support/thrown.h"
#include "transforms/device_chain.h"
#include "transforms/op_runner.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

constexpr std::int64_t kHeight = 120;
constexpr std::int64_t kWidth = 160;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

FieldSpec boxes_spec(const Shape& shape = {1, 4}) {
  return {"boxes", FieldKind::boxes, DType::float32, shape, 0};
}
FieldSpec mask_spec(const Shape& shape = {kHeight, kWidth}) {
  return {"mask", FieldKind::mask, DType::uint8, shape, 0};
}

Pixels<float> boxes(const Floats& values) {
  return {DType::float32, {static_cast<std::int64_t>(values.size()) / 4, 4}, values};
}

Floats moved(const AffineMap& map, const Floats& values) {
  Floats out(values.size(), -1);
  const Pixels<float> in = boxes(values);
  move_boxes(map, in.view(),
             {reinterpret_cast<std::byte*>(out.data()), DType::float32, in.view().shape});
  return out;
}

/// A box and a mask whose pixels inside the box have class 1; both pass through an operation.
class BoxedMask {
 public:
  explicit BoxedMask(const Floats& box) {
    sample_.fields.resize(2);
    const MutableArray mask = sample_.fields[0].array.reset(DType::uint8, {kHeight, kWidth});
    for (std::int64_t y = 0; y < kHeight; ++y)
      for (std::int64_t x = 0; x < kWidth; ++x) {
        const auto fx = static_cast<float>(x);
        const auto fy = static_cast<float>(y);
        mask.data[y * kWidth + x] =
            std::byte{fx >= box[0] && fx < box[2] && fy >= box[1] && fy < box[3]};
      }
    sample_.fields[1].array.assign(boxes(box).view());
  }

  void apply(const AnyOp& op, const RandomKey& key) {
    std::vector<HostArray> spare(2);
    Scratch scratch;
    op.apply(key, std::vector{mask_spec(), boxes_spec()}, sample_, spare, scratch);
  }

  Floats box() const {
    const ConstArray array = sample_.fields[1].array.view();
    return {array.as<float>(), array.as<float>() + 4};
  }
  Shape shape() const { return sample_.fields[0].array.view().shape; }
  /// Returns the box around the pixels of class 1, or zeros if there are none.
  Floats around_pixels() const {
    const ConstArray mask = sample_.fields[0].array.view();
    Floats found;
    for (std::int64_t y = 0; y < mask.shape[0]; ++y)
      for (std::int64_t x = 0; x < mask.shape[1]; ++x) {
        if (mask.data[y * mask.shape[1] + x] == std::byte{0}) continue;
        const auto fx = static_cast<float>(x);
        const auto fy = static_cast<float>(y);
        if (found.empty()) found = {fx, fy, fx + 1, fy + 1};
        found = {std::min(found[0], fx), std::min(found[1], fy), std::max(found[2], fx + 1),
                 std::max(found[3], fy + 1)};
      }
    return found.empty() ? Floats(4, 0) : found;
  }

 private:
  Sample sample_;
};

RandomAffine any_affine() {
  RandomAffine op;
  op.degrees[0] = -180;
  op.degrees[1] = 180;
  op.translate[0] = op.translate[1] = 0.2;
  op.scale[0] = 0.6;
  op.scale[1] = 1.8;
  op.shear[0] = op.shear[2] = -15;
  op.shear[1] = op.shear[3] = 15;
  return op;
}

std::vector<AnyOp> geometric_ops() {
  return {CenterCrop{{70, 90}},
          CenterCrop{{150, 90}},
          Pad{{9, 20, 0, 3}},
          RandomCrop{{64, 80}},
          RandomCrop{{130, 170}, 20},
          RandomResizedCrop{{96, 64}},
          RandomHorizontalFlip{},
          RandomVerticalFlip{},
          Resize{{77, 203}},
          RandomRotation{{-180, 180}},
          any_affine()};
}

/// Tolerance: a box may extend this far beyond its pixels, because pixels are whole and a rotated
/// box has pointed corners.
constexpr float kSlack = 4;

bool touches_an_edge(const Floats& box, const Shape& image) {
  return box[0] <= 0 || box[1] <= 0 || box[2] >= static_cast<float>(image[1]) ||
         box[3] >= static_cast<float>(image[0]);
}

TEST(Boxes, FollowThePixels) {
  const std::vector<Floats> all = {{20, 30, 60, 90}, {100, 10, 158, 40}, {70, 50, 100, 118}};
  std::size_t left = 0;
  for (const AnyOp& op : geometric_ops()) {
    for (std::uint64_t k = 0; k < 60; ++k) {
      BoxedMask both(all[k % all.size()]);
      both.apply(op, make_key(k));
      const Floats pixels = both.around_pixels();
      const Floats box = both.box();
      if (pixels[2] - pixels[0] <= kSlack || pixels[3] - pixels[1] <= kSlack) continue;
      SCOPED_TRACE(std::string(op.name()) + ", key " + std::to_string(k));
      EXPECT_TRUE(box[0] <= pixels[0] + 1 && box[1] <= pixels[1] + 1 && box[2] >= pixels[2] - 1 &&
                  box[3] >= pixels[3] - 1);
      // If the image's edge cuts the box off, the pixels that determined one of its sides may be
      // missing.
      if (touches_an_edge(box, both.shape())) continue;
      ++left;
      for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(box[i], pixels[i], kSlack) << "side " << i;
    }
  }
  EXPECT_GT(left, 150U);
}

TEST(Boxes, FlipsCropsAndIntegerResizesMoveBoxesExactly) {
  for (const AnyOp& op : {AnyOp(CenterCrop{{70, 90}}), AnyOp(RandomCrop{{64, 80}}),
                          AnyOp(Pad{{9, 20, 0, 3}}), AnyOp(CenterCrop{{150, 90}}),
                          AnyOp(RandomCrop{{130, 170}, 20}), AnyOp(RandomHorizontalFlip{}),
                          AnyOp(RandomVerticalFlip{}), AnyOp(Resize{{2 * kHeight, 3 * kWidth}})}) {
    for (std::uint64_t k = 0; k < 40; ++k) {
      BoxedMask both({20, 30, 60, 90});
      both.apply(op, make_key(k));
      EXPECT_EQ(both.box(), both.around_pixels()) << op.name() << ", key " << k;
    }
  }
}

TEST(Boxes, RotationBy180DegreesMovesBoxesExactly) {
  BoxedMask both({20, 30, 60, 90});
  both.apply(RandomRotation{{180, 180}}, make_key(1));
  const Floats box = both.box();
  const Floats expected = {kWidth - 60, kHeight - 90, kWidth - 20, kHeight - 30};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(box[i], expected[i], 1e-3) << i;
}

TEST(Boxes, AreClippedToTheImageAndEmptyOnesBecomeZeros) {
  AffineMap map;
  map.dx = -10;
  map.dy = 5;
  map.height = 50;
  map.width = 40;
  EXPECT_THAT(moved(map, {12,   1,  20, 9,   //
                          0,    0,  15, 60,  // beyond two edges
                          0,    0,  10, 10,  // left of the image
                          45,   10, 60, 20,  // half inside the image
                          0,    0,  0,  0,   // an empty box
                          20,   20, 20, 30,  // no width
                          30,   30, 20, 40,  // reversed
                          kNan, 0,  20, 20}),
              ElementsAre(2, 6, 10, 14, 0, 5, 5, 50, 0, 0, 0, 0, 35, 15, 40, 25, 0, 0, 0, 0, 0, 0,
                          0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Boxes, MoveBoxesWorksInPlaceAndForNoBoxes) {
  Floats values = {1, 2, 3, 4};
  const MutableArray array{reinterpret_cast<std::byte*>(values.data()), DType::float32, {1, 4}};
  AffineMap map;
  map.xx = 2;
  map.height = map.width = 10;
  move_boxes(map, array, array);
  EXPECT_THAT(values, ElementsAre(2, 2, 6, 4));
  EXPECT_THAT(moved(map, {}), ElementsAre());
}

TEST(Boxes, OtherShapeOrMissingImageIsRefused) {
  const Pixels<float> three{DType::float32, {2, 3}, Floats(6)};
  Floats out(6);
  const MutableArray to{reinterpret_cast<std::byte*>(out.data()), DType::float32, {2, 3}};
  EXPECT_THAT(thrown_by([&] { move_boxes({}, three.view(), to); }),
              HasSubstr("boxes are float32, 2 x 3; they must be float32, N x 4"));
  const auto refused = [](const AnyOp& op, const std::vector<FieldSpec>& fields) {
    return thrown_by([&] { fields_after(op, fields); });
  };
  EXPECT_THAT(refused(RandomHorizontalFlip{}, {mask_spec(), boxes_spec({2, 5})}),
              HasSubstr("they must be float32, N x 4"));
  EXPECT_THAT(refused(RandomHorizontalFlip{}, {mask_spec(), boxes_spec({4})}),
              HasSubstr("they must be float32, N x 4"));
  EXPECT_THAT(refused(RandomHorizontalFlip{}, {boxes_spec()}),
              HasSubstr("do not belong to an image"));
}

/// Halves the height of images, without an affine map for boxes.
struct Halve : OwnOp {
  static constexpr std::string_view kName = "halve";
  bool touches(FieldKind) const { return true; }
  FieldSpec output(const FieldSpec& in) const {
    FieldSpec out = in;
    out.shape.dims[0] /= 2;
    return out;
  }
};

TEST(Boxes, OperationWithoutMapIsRefusedForDataWithBoxes) {
  EXPECT_THAT(thrown_by([] {
                fields_after(Halve{}, {mask_spec(), boxes_spec()});
              }),
              testing::AllOf(HasSubstr("Refused"),
                             HasSubstr("boxes 'boxes' cannot be moved with the image"),
                             HasSubstr("map()")));
  EXPECT_EQ(fields_after(Halve{}, {mask_spec()})[0].shape[0], kHeight / 2);
  EXPECT_FALSE(AnyOp(Halve{}).touches(FieldKind::boxes));
}

TEST(FieldsAfter, ReportsEachRefusedOperationAndContinuesWithTheOthers) {
  const std::vector<NamedOp> chain = {{"first", Halve{}},
                                      {"empty", Resize{{0, 5}}},
                                      {"small", Resize{{30, 40}}},
                                      {"last", Halve{}}};
  std::vector<std::string> problems;
  const auto fields = fields_after(chain, {mask_spec(), boxes_spec()}, problems);
  EXPECT_EQ(fields[0].shape, (Shape{30, 40}));
  EXPECT_THAT(problems, ElementsAre(HasSubstr("transform 'first': boxes 'boxes' cannot be moved"),
                                    HasSubstr("transform 'empty': resize"),
                                    HasSubstr("transform 'last': boxes 'boxes' cannot be moved")));
}

TEST(Boxes, KeepTheirShapeAndAreIgnoredByPixelOperations) {
  const std::vector<FieldSpec> fields = {mask_spec({-1, -1}), boxes_spec({7, 4})};
  for (const AnyOp& op : geometric_ops())
    EXPECT_EQ(fields_after(op, fields)[1].shape, (Shape{7, 4})) << op.name();
  EXPECT_FALSE(AnyOp(GaussianBlur{3, {1, 1}}).touches(FieldKind::boxes));
  EXPECT_FALSE(AnyOp(ToDtype{.scale = true}).touches(FieldKind::boxes));
}

TEST(Boxes, FollowAnOperationWithAddedCost) {
  BoxedMask both({20, 30, 60, 90});
  both.apply(with_cost(RandomHorizontalFlip{1}, {}), make_key(0));
  EXPECT_THAT(both.box(), ElementsAre(100, 30, 140, 90));
}

TEST(Boxes, DeviceChainMovesBoxesLikeItsOperations) {
  const std::vector<NamedOp> chain = {{"crop", RandomResizedCrop{{96, 64}}},
                                      {"flip", RandomHorizontalFlip{}},
                                      {"turn", RandomRotation{{-40, 40}}},
                                      {"again", RandomCrop{64, 4}}};
  const DeviceChain device(chain, 3, {mask_spec(), boxes_spec()});
  std::vector<std::byte> drawn(device.drawn_bytes() + 16);
  auto* at = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(drawn.data()) + 15) &
                                          ~std::uintptr_t{15});
  for (std::uint64_t k = 0; k < 30; ++k) {
    BoxedMask both({20, 30, 60, 90});
    RandomKey key = make_key(k);
    device.draw(key, at);
    Floats box = both.box();
    device.move_boxes(at, {reinterpret_cast<std::byte*>(box.data()), DType::float32, {1, 4}});
    for (std::size_t i = 0; i < chain.size(); ++i) {
      key.operation = static_cast<std::uint32_t>(3 + i);
      both.apply(chain[i].op, key);
    }
    EXPECT_EQ(box, both.box()) << k;
  }
}

}  // namespace
}  // namespace slipstream
