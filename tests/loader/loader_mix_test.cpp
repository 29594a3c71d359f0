#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/loader_fixture.h"
#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/batch_chain.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kMixBatch = 4;
constexpr std::uint64_t kSeed = 9;
constexpr BatchOps kMixup{.mixup = MixUp{0.5}};

const std::vector<NamedOp> kFloats = {{"flip", RandomHorizontalFlip{}},
                                      {"float", ToDtype{.scale = true}}};

DataLoaderOptions mix_options(const BatchOps& ops, unsigned workers = 2) {
  DataLoaderOptions options{{.batch_size = kMixBatch, .seed = kSeed}, {.num_workers = workers}};
  options.batch_ops = ops;
  return options;
}

bool has_field(const SlabLayout& layout, const std::string& name) {
  const auto is = [&](const SlabField& field) { return field.spec.name == name; };
  return std::any_of(layout.fields.begin(), layout.fields.end(), is);
}

/// Returns the mixing shares that the loader stores with each of `batches` batches.
std::vector<std::vector<float>> shares(const DataLoaderOptions& options, std::size_t batches,
                                       const std::vector<NamedOp>& transforms = kFloats) {
  DataLoader loader(std::make_shared<TestSet>(22), transforms, options);
  const SlabField& field = loader.layout().field(kMixField);
  std::vector<std::vector<float>> all;
  for (const Bytes& slab : take(loader, batches)) {
    auto& of_batch = all.emplace_back();
    for (std::size_t i = 0; i < kMixBatch; ++i) {
      DrawnMix drawn;
      std::memcpy(&drawn, slab.data() + field.offset_bytes + i * field.sample_bytes, sizeof(drawn));
      of_batch.push_back(drawn.own);
    }
  }
  return all;
}

/// Returns the share that MixUp samples after this number of transforms.
float drawn(std::uint64_t batch, std::size_t place, std::uint32_t transforms = 2) {
  const BatchChain chain(kMixup, transforms,
                         {{"image", FieldKind::image, DType::float32, {kSide, kSide, 3}, 0},
                          {"label", FieldKind::label, DType::uint8, {}, 10}});
  return chain.draw(kSeed, batch, static_cast<std::uint32_t>(place)).own;
}

TEST(LoaderMix, SharesDependOnBatchNumberAndPosition) {
  constexpr std::size_t kBatches = 12;  // more than two epochs
  for (const unsigned workers : {1U, 3U}) {
    const auto all = shares(mix_options(kMixup, workers), kBatches);
    for (std::size_t batch = 0; batch < kBatches; ++batch)
      for (std::size_t i = 0; i < kMixBatch; ++i)
        ASSERT_EQ(all[batch][i], drawn(batch, i)) << batch << ", " << i;
  }
  DataLoaderOptions resumed = mix_options(kMixup);
  resumed.first_batch = 7;
  EXPECT_EQ(shares(resumed, 1)[0][2], drawn(7, 2));
}

TEST(LoaderMix, SharesOfARankUseItsPositionsInTheGlobalBatch) {
  DataLoaderOptions options = mix_options(kMixup);
  options.rank = {1, 3};
  const auto all = shares(options, 3);
  for (std::size_t batch = 0; batch < 3; ++batch)
    for (std::size_t i = 0; i < kMixBatch; ++i)
      EXPECT_EQ(all[batch][i], drawn(batch, kMixBatch + i));
}

TEST(LoaderMix, MixFieldIsSentNextToDeviceTransformParameters) {
  DataLoaderOptions options = mix_options(kMixup);
  options.on_device = 2;
  const SlabLayout layout = DataLoader::plan_layout(TestSet(8), kFloats, options);
  EXPECT_TRUE(has_field(layout, kDrawnField));
  ASSERT_NE(layout.batch_chain, nullptr);
  EXPECT_EQ(layout.batch_chain->form().dtype, DType::float32);
  EXPECT_EQ(shares(options, 2)[1][3], drawn(1, 3));
}

TEST(LoaderMix, OneHotAloneNeedsNoMixField) {
  const SlabLayout layout =
      DataLoader::plan_layout(TestSet(8), {}, mix_options({.one_hot = OneHot{0.1}}));
  ASSERT_NE(layout.batch_chain, nullptr);
  EXPECT_FALSE(has_field(layout, kMixField));
  EXPECT_EQ(layout.batch_chain->form().label, DType::uint8);
  EXPECT_EQ(DataLoader::plan_layout(TestSet(8), {}, mix_options({})).batch_chain, nullptr);
}

TEST(LoaderMix, InvalidMixUpSetupIsRefused) {
  const auto refusal = [](const std::vector<NamedOp>& transforms, const BatchOps& ops,
                          const WireFormats& wire = {}) {
    DataLoaderOptions options = mix_options(ops);
    options.wire = wire;
    return thrown_by([&] { DataLoader::plan_layout(TestSet(8), transforms, options); });
  };
  EXPECT_THAT(refusal({}, kMixup), StartsWith("Refused: mixup needs float32 images"));
  EXPECT_THAT(refusal(kFloats, kMixup, {{"label", Wire::host}}),
              HasSubstr("field 'label' stays on the host, but mixup runs on the device"));
  EXPECT_THAT(refusal(kFloats, kMixup, {{"image", Wire::host}}), HasSubstr("'image' stays"));
  EXPECT_EQ(refusal({}, {.one_hot = OneHot{}}, {{"image", Wire::host}}), "nothing");
  std::vector<NamedOp> many(63, {"", ToDtype{.scale = true}});
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i].name = "t";
    many[i].name += std::to_string(i);
    many[i].op = i == 0 ? AnyOp(ToDtype{.scale = true}) : AnyOp(RandomHorizontalFlip{});
  }
  EXPECT_EQ(refusal(many, kMixup), "nothing");
  many.push_back({"last", RandomHorizontalFlip{}});
  EXPECT_EQ(refusal(many, {}), "nothing");
  EXPECT_THAT(refusal(many, kMixup), HasSubstr("64 transforms before mixup"));
}

TEST(LoaderMix, MixUpAsSampleTransformIsRefused) {
  EXPECT_THAT(thrown_by([] {
                DataLoader::plan_layout(TestSet(8),
                                        {{"float", ToDtype{.scale = true}}, {"blend", MixUp{}}},
                                        {{.batch_size = 2}, {}});
              }),
              StartsWith("Refused: transform 'blend': mixup works on whole batches"));
}

}  // namespace
}  // namespace slipstream
