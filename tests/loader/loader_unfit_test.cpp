#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "loader/loader_fixture.h"
#include "slipstream/transforms/op.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/jpeg_set.h"
#include "support/made_set.h"
#include "support/own_op.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Chain = std::vector<NamedOp>;

constexpr std::size_t kUnfitBatches = 9;  // three epochs

DataLoaderOptions skipping(unsigned workers = 2) {
  return {{.batch_size = 4, .on_bad_sample = OnBadSample::skip}, {.num_workers = workers}};
}

std::vector<std::uint64_t> numbers(const SkippedSamples& skipped) {
  std::vector<std::uint64_t> all;
  for (const SkippedSample& each : skipped.samples) all.push_back(each.sample);
  return all;
}

/// Images 0 and 9 are 40 pixels high, all others at least 47.
std::shared_ptr<JpegSet> set_with_two_small_images() { return jpeg_set(12); }

std::shared_ptr<JpegSet> set_with_two_damaged_files() {
  auto set = set_with_two_small_images();
  for (const std::size_t each : {0, 9}) set->files[each].resize(set->files[each].size() / 2);
  return set;
}

void expect_as_damaged(const Chain& chain, const DataLoaderOptions& options, const char* what) {
  DataLoader unfit(set_with_two_small_images(), chain, options);
  DataLoader damaged(set_with_two_damaged_files(), chain, options);
  EXPECT_EQ(take(unfit, kUnfitBatches), take(damaged, kUnfitBatches)) << what;
  const SkippedSamples skipped = unfit.skipped();
  EXPECT_THAT(numbers(skipped), ElementsAre(0, 9)) << what;
  // The batch is the one whose worker found the sample first, which may be a later one if the
  // worker of the first was interrupted.
  EXPECT_THAT(skipped.samples[0].message,
              HasSubstr("step 'crop' of sample 0 (picture 0.jpg, epoch "));
  EXPECT_THAT(skipped.samples[0].message, HasSubstr("the image is 40 x 80 pixels, "));
}

TEST(LoaderUnfit, ImagesSmallerThanTheCropAreSkippedLikeDamagedFiles) {
  for (const unsigned workers : {1U, 3U}) {
    expect_as_damaged({{"crop", RandomCrop{{45, 30}}}}, skipping(workers), "random");
    expect_as_damaged({{"crop", RandomCrop{{47, 34}, 2}}}, skipping(workers), "padded");
    expect_as_damaged({{"flip", RandomHorizontalFlip{}}, {"crop", RandomCrop{{45, 30}}}},
                      skipping(workers), "later");
  }
}

TEST(LoaderUnfit, SmallImagesAreSkippedForAllDecodeAndCacheOptions) {
  const Chain chain = {{"crop", RandomCrop{{45, 30}}}};
  const auto expect = [&](const char* what, const auto& change, const Chain& of) {
    DataLoaderOptions options = skipping();
    change(options);
    expect_as_damaged(of, options, what);
  };
  expect(
      "whole", [](auto& options) { options.decode.partial = false; }, chain);
  expect(
      "scaled", [](auto& options) { options.decode.scaled = true; }, chain);
  expect(
      "ahead", [](auto& options) { options.read_ahead.reads = 3; }, chain);
  for (const char* after : {"read", "decode"}) {
    expect(
        after,
        [&](auto& options) {
          options.cache = CacheOptions{after, 1 << 20};
        },
        chain);
  }
  const Chain fixed = {{"crop", Pad{{0, 42, 0, 0}, {0}, PaddingMode::reflect}},
                       {"center", CenterCrop{{45, 30}}}};
  expect(
      "crop",
      [](auto& options) {
        options.cache = CacheOptions{"crop", 1 << 20};
      },
      fixed);
  for (const char* after : {"read", "decode"}) {
    expect(
        after,
        [&](auto& options) {
          options.cut = HostCut{after, 12};
        },
        chain);
  }
  expect(
      "collate",
      [](auto& options) {
        options.cut = HostCut{"collate", 3};
      },
      chain);
}

TEST(LoaderUnfit, StopModeReportsFileAndSampleForAllDecodeOptions) {
  const auto message = [](const DecodeOptions& decode, const WireFormats& wire) {
    DataLoader loader(set_with_two_small_images(), {{"crop", RandomCrop{{45, 30}}}},
                      {{.batch_size = 4, .shuffle = false, .decode = decode}, {.wire = wire}});
    return message_of_next(loader);
  };
  const std::string expected =
      "step 'crop' of sample 0 (picture 0.jpg, epoch 0, batch 0): random_crop: the image is 40 x "
      "80 pixels, smaller than 45 x 30; put resize before it";
  EXPECT_EQ(message({.partial = false}, {}), expected);
  EXPECT_EQ(message({.partial = true}, {}), expected);
  EXPECT_EQ(message({.scaled = true}, {}), expected);
  EXPECT_EQ(message({}, {{"image", Wire::jpeg}}), expected);
}

/// Images of 6 x 8 pixels with masks; one sample has other sizes.
std::shared_ptr<const Dataset> set_with_one_odd_sample(const Shape& image, const Shape& mask) {
  return made_set(8, {image_field(), mask_field("mask", 5)}, [=](std::size_t index, Sample& out) {
    const auto put = [](Field& field, const Shape& shape) {
      const MutableArray array = field.array.reset(DType::uint8, shape);
      std::fill_n(array.data, array.bytes(), std::byte{1});
    };
    put(out.fields[0], index == 5 ? image : Shape{6, 8, 3});
    put(out.fields[1], index == 5 ? mask : Shape{6, 8});
  });
}

TEST(LoaderUnfit, EmptyImagesAndMasksOfAnotherSizeAreSkipped) {
  const auto message = [](const Shape& image, const Shape& mask, const AnyOp& op) {
    DataLoader loader(set_with_one_odd_sample(image, mask), {{"op", op}}, skipping());
    take(loader, 4);
    const SkippedSamples skipped = loader.skipped();
    EXPECT_THAT(numbers(skipped), ElementsAre(5));
    return skipped.samples.empty() ? "" : skipped.samples[0].message;
  };
  EXPECT_THAT(message({0, 8, 3}, {0, 8}, RandomResizedCrop{4}),
              HasSubstr("the image has no pixels"));
  EXPECT_THAT(message({0, 8, 3}, {0, 8}, Resize{{4, 4}}), HasSubstr("the field has no pixels"));
  EXPECT_THAT(message({6, 8, 3}, {6, 7}, RandomCrop{4}),
              HasSubstr("a field is 6 x 7 pixels, but the sample's first image is 6 x 8"));
}

/// Throws E for the image of sample 3.
template <typename E>
struct Picky : OwnOp {
  static constexpr std::string_view kName = "picky";
  void apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    if (in.data[0] == sample_pixel(3, 0)) throw E("not this one");
    std::copy_n(in.data, in.bytes(), out.data);
  }
};

TEST(LoaderUnfit, UnfitSampleFromACustomOperationIsSkipped) {
  DataLoader skips(std::make_shared<TestSet>(8), {{"own", Picky<UnfitSample>{}}}, skipping());
  take(skips, 4);
  EXPECT_THAT(numbers(skips.skipped()), ElementsAre(3));
}

TEST(LoaderUnfit, OtherErrorsFromACustomOperationAreRethrown) {
  DataLoaderOptions options = skipping();
  options.batch_size = 8;
  const auto message = [&](const AnyOp& op) {
    DataLoader loader(std::make_shared<TestSet>(8), {{"own", op}}, options);
    return message_of_next(loader);
  };
  EXPECT_THAT(message(Picky<Error>{}), HasSubstr("step 'own' of sample 3"));
  EXPECT_THAT(message(Picky<Refused>{}), HasSubstr("not this one"));
  EXPECT_THAT(message(Picky<std::runtime_error>{}), HasSubstr("not this one"));
}

}  // namespace
}  // namespace slipstream
