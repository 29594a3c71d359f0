#include <gmock/gmock.h>

#include "loader/loader_fixture.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/array_values.h"
#include "support/jpeg_set.h"
#include "support/made_set.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr std::size_t kBoxesBatch = 5;
constexpr std::size_t kBoxesBatches = 6;  // three epochs

const std::vector<NamedOp> kGeometricOps = {{"crop", RandomResizedCrop{{24, 32}}},
                                            {"flip", RandomHorizontalFlip{}},
                                            {"turn", RandomRotation{{-30, 30}}},
                                            {"again", RandomCrop{24, 2}}};

/// Returns the boxes of all samples of some batches as the loader stores them.
std::vector<Bytes> load_boxes(const DataLoaderOptions& options,
                              const std::vector<NamedOp>& chain = kGeometricOps) {
  DataLoader loader(jpeg_set(10), chain, options);
  const SlabField& field = loader.layout().field("boxes");
  std::vector<Bytes> all;
  for (const Bytes& slab : take(loader, kBoxesBatches)) {
    const std::byte* const from = slab.data() + field.offset_bytes;
    all.emplace_back(from, from + kBoxesBatch * field.sample_bytes);
  }
  return all;
}

TEST(LoaderBoxes, AreTheSameForTransformsOnHostOrDevice) {
  const std::vector<Bytes> on_the_host = load_boxes({{.batch_size = kBoxesBatch, .seed = 3}, {}});
  EXPECT_NE(on_the_host[0], on_the_host[2]) << "the third batch is of another epoch";
  for (const unsigned workers : {1U, 3U})
    for (std::size_t on_device = 1; on_device < kGeometricOps.size(); ++on_device) {
      DataLoaderOptions options{{.batch_size = kBoxesBatch, .seed = 3}, {.num_workers = workers}};
      options.on_device = on_device;
      EXPECT_EQ(load_boxes(options), on_the_host) << on_device << " on the device";
      options.cache = CacheOptions{"decode", 10 << 20};
      EXPECT_EQ(load_boxes(options), on_the_host) << on_device << " on the device, from a cache";
    }
}

TEST(LoaderBoxes, AreTransformedAgainForCachedSamples) {
  const std::vector<NamedOp> chain = {{"resize", Resize{{24, 32}}},
                                      {"turn", RandomRotation{{-30, 30}}}};
  DataLoaderOptions options{{.batch_size = kBoxesBatch, .seed = 3}, {}};
  options.on_device = 1;
  const std::vector<Bytes> plain = load_boxes(options, chain);
  options.cache = CacheOptions{"resize", 10 << 20};
  EXPECT_EQ(load_boxes(options, chain), plain);
}

TEST(LoaderBoxes, AreTheSameForPartialAndScaledDecoding) {
  DataLoaderOptions options{{.batch_size = kBoxesBatch, .seed = 3}, {}};
  options.decode.partial = false;
  const std::vector<Bytes> whole = load_boxes(options);
  options.decode.partial = options.decode.scaled = true;
  EXPECT_EQ(load_boxes(options), whole);
}

TEST(LoaderBoxes, AcceptOnlyPlainAndHostWire) {
  for (const Wire wire : {Wire::bf16, Wire::fp16, Wire::one_hot}) {
    const DataLoaderOptions options{{.batch_size = kBoxesBatch}, {.wire = {{"boxes", wire}}}};
    EXPECT_THAT(refusal(jpeg_set(10), kGeometricOps, options),
                HasSubstr("leave out this wire format"));
  }
  EXPECT_EQ(load_boxes({{.batch_size = kBoxesBatch, .seed = 3}, {.wire = {{"boxes", Wire::host}}}}),
            load_boxes({{.batch_size = kBoxesBatch, .seed = 3}, {}}));
}

TEST(LoaderBoxes, MixUpWithBoxesIsRefused) {
  DataLoaderOptions options{{.batch_size = kBoxesBatch}, {}};
  options.batch_ops = BatchOps{.mixup = MixUp{}};
  std::vector<ArrayField> fields(2);
  fields[0] = {"image", FieldKind::image, counting<std::uint8_t>(DType::uint8, {5, 4, 4, 3}), 0};
  fields[1] = {"boxes", FieldKind::boxes, counting<float>(DType::float32, {5, 2, 4}), 0};
  EXPECT_THAT(
      refusal(tensor_dataset(std::move(fields)), {{"float", ToDtype{.scale = true}}}, options),
      HasSubstr("holds the boxes of each image"));
}

TEST(LoaderBoxes, InMemoryBoxesOfOtherShapeOrTypeAreRefused) {
  const auto set = [](HostArray values) {
    std::vector<ArrayField> fields(1);
    fields[0] = {"boxes", FieldKind::boxes, std::move(values), 0};
    return tensor_dataset(std::move(fields));
  };
  EXPECT_EQ(set(counting<float>(DType::float32, {3, 2, 4}))->fields()[0].shape, (Shape{2, 4}));
  for (const Shape& shape : {Shape{3, 4}, Shape{3, 2, 5}})
    EXPECT_THAT(thrown_by([&] { set(counting<float>(DType::float32, shape)); }),
                HasSubstr("boxes are float32, N x boxes x 4"));
  EXPECT_THAT(thrown_by([&] {
                set(counting<std::int64_t>(DType::int64, {3, 2, 4}));
              }),
              HasSubstr("boxes are float32, N x boxes x 4"));
}

TEST(LoaderBoxes, OtherShapeIsRefusedTogetherWithOtherProblems) {
  const auto odd = made_set(8,
                            {{"image", FieldKind::image, DType::uint8, {4, 4, 3}, 0},
                             {"boxes", FieldKind::boxes, DType::float32, {2, 5}, 0}},
                            [](std::size_t, Sample&) {});
  const DataLoaderOptions options{{.batch_size = kBoxesBatch}, {.wire = {{"image", Wire::plain}}}};
  EXPECT_THAT(refusal(odd, {}, options), HasSubstr("they must be float32, N x 4"));
  const std::string message =
      refusal(odd, {{"flip", RandomHorizontalFlip{2}}, {"down", RandomVerticalFlip{}}}, options);
  EXPECT_THAT(message, HasSubstr("transform 'flip': random_horizontal_flip: p is"));
  EXPECT_THAT(message, HasSubstr("transform 'down': boxes 'boxes' are float32, 2 x 5"));
  EXPECT_THAT(message, testing::Not(HasSubstr("unknown field")));
}

}  // namespace
}  // namespace slipstream
