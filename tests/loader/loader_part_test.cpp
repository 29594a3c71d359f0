#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/loader_fixture.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/picture_set.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr DecodeOptions kWhole = {.partial = false};
constexpr DecodeOptions kPart = {};

struct LoadedPart {
  std::vector<Bytes> slabs;
  double decoded_bytes = 0;  ///< per sample
};

LoadedPart run_part(std::shared_ptr<const Dataset> dataset, const std::vector<NamedOp>& chain,
                    const DecodeOptions& decode, std::optional<HostCut> cut = std::nullopt) {
  DataLoaderOptions options{{.batch_size = 3, .decode = decode}, {.num_workers = 2}};
  options.cut = std::move(cut);
  DataLoader loader(std::move(dataset), chain, options);
  LoadedPart result;
  result.slabs = take(loader, 20);
  const StepCounter step = loader.counters()[1];
  if (step.calls > 0) {
    result.decoded_bytes = static_cast<double>(step.bytes) / static_cast<double>(step.calls);
  }
  return result;
}

std::vector<std::vector<NamedOp>> part_chains() {
  return {{{"crop", CenterCrop{{13, 11}}}},
          {{"crop", RandomCrop{{12, 10}}}, {"flip", RandomHorizontalFlip{}}},
          {{"crop", RandomCrop{{30, 40}, 20}}},
          {{"crop", RandomResizedCrop{{16, 24}}}, {"scale", Normalize{}}},
          {{"crop", RandomResizedCrop{64}}, {"crop again", RandomCrop{32}}}};
}

TEST(LoaderPartialDecoding, BatchesAreTheSameWithPartialDecodingAndWithout) {
  for (const auto& chain : part_chains()) {
    const LoadedPart whole = run_part(std::make_shared<PictureSet>(), chain, kWhole);
    const LoadedPart part = run_part(std::make_shared<PictureSet>(), chain, kPart);
    EXPECT_EQ(part.slabs, whole.slabs);
    EXPECT_LT(part.decoded_bytes, whole.decoded_bytes);
  }
}

TEST(LoaderPartialDecoding, BatchesAreTheSameAfterACut) {
  for (const std::string after : {"read", "decode", "crop"}) {
    for (const auto& chain : part_chains()) {
      const HostCut cut{after, 14};
      EXPECT_EQ(run_part(std::make_shared<PictureSet>(), chain, kPart, cut).slabs,
                run_part(std::make_shared<PictureSet>(), chain, kWhole, cut).slabs)
          << after;
    }
  }
}

TEST(LoaderPartialDecoding, ShorterSideResizeWithCropAcceptsAnyImageSize) {
  const std::vector<NamedOp> chain = {{"small", Resize{11}}, {"crop", CenterCrop{11}}};
  const LoadedPart plain = run_part(std::make_shared<PictureSet>(), chain, kPart);
  EXPECT_EQ(plain.slabs.size(), 20U);
  EXPECT_EQ(run_part(std::make_shared<PictureSet>(), chain, {.scaled = true}).slabs, plain.slabs);
  EXPECT_THAT(thrown_by([] {
                DataLoader(std::make_shared<PictureSet>(), {{"small", Resize{11}}}, {});
              }),
              HasSubstr("differs from sample to sample: add resize to [height, width] or a crop"));
}

TEST(LoaderPartialDecoding, OnlyAFirstCropWithDefaultDecodingDecodesPartially) {
  const auto decoded = [](bool is_default, const std::vector<NamedOp>& chain,
                          const DecodeOptions& options) {
    const auto dataset = std::make_shared<PictureSet>();
    dataset->decodes_default = is_default;
    return run_part(dataset, chain, options).decoded_bytes;
  };
  const std::vector<NamedOp> crop = {{"crop", RandomCrop{{12, 10}}}};
  const std::vector<NamedOp> late = {{"small", Resize{{30, 30}}}, {"crop", RandomCrop{{12, 10}}}};
  // Workers decode in advance, so the averages differ a little from run to run.
  const double whole = decoded(true, crop, kWhole);
  EXPECT_NEAR(decoded(false, crop, kPart), whole, whole / 4);
  EXPECT_NEAR(decoded(true, late, kPart), whole, whole / 4);
  EXPECT_LT(decoded(true, crop, kPart), whole * 3 / 4);
}

std::string first_error(const std::shared_ptr<const Dataset>& dataset,
                        const std::vector<NamedOp>& chain, bool is_partial) {
  DataLoader loader(dataset, chain,
                    {{.batch_size = 14, .shuffle = false, .decode = {.partial = is_partial}}, {}});
  return message_of_next(loader);
}

TEST(LoaderPartialDecoding, ErrorsAreTheSameWithAndWithoutPartialDecoding) {
  const auto dataset = std::make_shared<PictureSet>();
  const std::vector<NamedOp> too_large = {{"crop", RandomCrop{{45, 10}}}};
  EXPECT_THAT(first_error(dataset, too_large, true), HasSubstr("step 'crop' of sample 0"));
  EXPECT_EQ(first_error(dataset, too_large, true), first_error(dataset, too_large, false));

  std::vector<std::byte>& file = dataset->image(2);
  file.resize(file.size() - 9);
  const std::vector<NamedOp> crop = {{"crop", CenterCrop{5}}};
  EXPECT_THAT(first_error(dataset, crop, true), HasSubstr("step 'decode' of sample 2"));
  EXPECT_EQ(first_error(dataset, crop, true), first_error(dataset, crop, false));
  file.clear();
  EXPECT_THAT(first_error(dataset, crop, true), HasSubstr("step 'decode' of sample 2"));
}

}  // namespace
}  // namespace slipstream
