#include <gmock/gmock.h>

#include "loader/loader_fixture.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/jpeg_set.h"
#include "support/made_set.h"
#include "support/picture_set.h"
#include "transforms/device_chain.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kCanvasBatch = 5;
constexpr std::size_t kCanvasBatches = 6;

DataLoaderOptions canvas_options(std::size_t on_device, unsigned workers = 2) {
  DataLoaderOptions options{{.batch_size = kCanvasBatch, .seed = 3}, {.num_workers = workers}};
  options.on_device = on_device;
  return options;
}

/// Chains that enlarge, shrink or change the aspect ratio of images and masks.
std::vector<std::vector<NamedOp>> chains() {
  const auto with = [](AnyOp first) -> std::vector<NamedOp> {
    return {{"first", std::move(first)},
            {"flip", RandomHorizontalFlip{}},
            {"turn", RandomRotation{{-30, 30}}}};
  };
  return {with(RandomResizedCrop{{16, 24}}),
          with(RandomResizedCrop{.size = {40, 30}, .antialias = false}),
          with(RandomResizedCrop{{80, 96}}),
          with(RandomResizedCrop{{6, 5}}),
          with(Resize{{30, 20}}),
          with(Resize{{70, 90}, false}),
          with(CenterCrop{{13, 11}}),
          with(CenterCrop{{90, 11}}),
          with(Resize{{30, 20}, true, Interpolation::bicubic}),
          with(Resize{{70, 90}, true, Interpolation::nearest}),
          with(RandomCrop{{12, 10}})};
}

/// Returns all fields of all samples of some batches after the whole chain.
std::vector<Bytes> load_values(const std::shared_ptr<const Dataset>& set,
                               const std::vector<NamedOp>& chain,
                               const DataLoaderOptions& options) {
  DataLoader loader(set, chain, options);
  const SlabLayout& layout = loader.layout();
  std::vector<Bytes> all;
  for (const Bytes& slab : take(loader, kCanvasBatches))
    for (std::size_t i = 0; i < set->fields().size(); ++i)
      for (std::size_t s = 0; s < kCanvasBatch; ++s) {
        const SlabField& field = layout.fields[i];
        const std::byte* const at = slab.data() + field.offset_bytes + s * field.sample_bytes;
        HostArray values, spare;
        Scratch scratch;
        values.assign({at, field.spec.dtype, field.spec.shape});
        if (layout.device_chain && field.spec.kind != FieldKind::boxes) {
          const SlabField& drawn = layout.field(kDrawnField);
          layout.device_chain->apply(slab.data() + drawn.offset_bytes + s * drawn.sample_bytes, i,
                                     values, spare, scratch);
        }
        const ConstArray view = values.view();
        all.emplace_back(view.data, view.data + view.bytes());
      }
  return all;
}

TEST(LoaderCanvas, DeviceChainGivesSameValuesAsHostForAnyImageSize) {
  for (const auto& chain : chains())
    for (const bool are_boxed : {false, true}) {
      const std::shared_ptr<const Dataset> set =
          are_boxed ? std::shared_ptr<const Dataset>(jpeg_set(10)) : std::make_shared<PictureSet>();
      SCOPED_TRACE(std::string(chain[0].op.name()) + (are_boxed ? ", boxed" : ""));
      const std::vector<Bytes> on_the_host = load_values(set, chain, canvas_options(0));
      EXPECT_EQ(load_values(set, chain, canvas_options(3)), on_the_host);
      DataLoaderOptions options = canvas_options(3, 1);
      options.decode.partial = false;
      EXPECT_EQ(load_values(set, chain, options), on_the_host) << "decoded whole";
      for (const std::string after : {"read", "decode"}) {
        options = canvas_options(3);
        options.cache = CacheOptions{after, 10 << 20};
        EXPECT_EQ(load_values(set, chain, options), on_the_host) << "cached after " << after;
      }
    }
}

TEST(LoaderCanvas, DeviceChainGivesSameValuesWithScaledDecoding) {
  for (const auto& chain : {chains()[0], chains()[3], chains()[4]}) {
    const auto set = std::make_shared<PictureSet>();
    DataLoaderOptions options = canvas_options(0);
    options.decode.scaled = true;
    const std::vector<Bytes> on_the_host = load_values(set, chain, options);
    options.on_device = 3;
    EXPECT_EQ(load_values(set, chain, options), on_the_host);
  }
}

TEST(LoaderCanvas, EarlierHostTransformsGiveSameValues) {
  std::vector<NamedOp> chain = chains()[0];
  chain.insert(chain.begin(), {"down", RandomVerticalFlip{}});
  const auto set = std::make_shared<PictureSet>();
  const std::vector<Bytes> on_the_host = load_values(set, chain, canvas_options(0));
  EXPECT_EQ(load_values(set, chain, canvas_options(3)), on_the_host);
  DataLoaderOptions cut = canvas_options(0);
  cut.cut = HostCut{"down", 7};
  const std::vector<Bytes> cut_on_the_host = load_values(set, chain, cut);
  cut.on_device = 3;
  EXPECT_EQ(load_values(set, chain, cut), cut_on_the_host);
}

TEST(LoaderCanvas, DecodesOnlyTheCropRegion) {
  const auto decoded_bytes = [](bool is_partial) {
    DataLoaderOptions options = canvas_options(1);
    options.decode.partial = is_partial;
    DataLoader loader(std::make_shared<PictureSet>(), {{"crop", RandomCrop{{12, 10}}}}, options);
    const auto slabs = take(loader, 20);
    const StepCounter step = loader.counters()[1];
    return std::pair(static_cast<double>(step.bytes) / static_cast<double>(step.calls), slabs);
  };
  const auto [part, of_parts] = decoded_bytes(true);
  const auto [whole, of_whole] = decoded_bytes(false);
  EXPECT_LT(part, whole * 3 / 4);
  EXPECT_EQ(of_parts, of_whole) << "the rest of the canvas must be 0";
}

TEST(LoaderCanvas, CanvasesHaveOneSize) {
  DataLoader crops(std::make_shared<PictureSet>(), chains()[6], canvas_options(3));
  EXPECT_EQ(crops.layout().field("image").spec.shape, (Shape{13, 11, 3}));
  DataLoader resizes(std::make_shared<PictureSet>(), chains()[4], canvas_options(3));
  EXPECT_EQ(resizes.layout().field("image").spec.shape, (Shape{60, 40, 3}));
  EXPECT_EQ(resizes.layout().field("mask").spec.shape, (Shape{60, 40}));
}

TEST(LoaderCanvas, OtherFirstTransformsRequireOneImageSize) {
  for (const AnyOp& first : {AnyOp(RandomHorizontalFlip{}), AnyOp(RandomCrop{{12, 10}, 2})})
    EXPECT_THAT(refusal(std::make_shared<PictureSet>(), {{"first", first}}, canvas_options(1)),
                HasSubstr("differs from sample to sample: add resize"));
  const std::vector<NamedOp> wrong = {{"first", RandomResizedCrop{{-1, 8}}}};
  EXPECT_THAT(refusal(std::make_shared<PictureSet>(), wrong, canvas_options(1)),
              HasSubstr("transform 'first': random_resized_crop to -1 x 8"));
}

TEST(LoaderCanvas, ResizeOfTheShorterSideIsRefusedOnTheDevice) {
  const std::vector<NamedOp> chain = {{"small", Resize{8}}, {"crop", CenterCrop{8}}};
  EXPECT_THAT(
      refusal(std::make_shared<PictureSet>(), chain, canvas_options(2)),
      HasSubstr("transform 'small': images keep different sizes, which the device does "
                "not support: give its size as [height, width], or leave it to the loader's"));
  EXPECT_EQ(load_values(std::make_shared<PictureSet>(), chain, canvas_options(1)),
            load_values(std::make_shared<PictureSet>(), chain, canvas_options(0)));
}

TEST(LoaderCanvas, ImageSmallerThanTheCropIsReportedOrSkipped) {
  const std::vector<NamedOp> chain = {{"crop", RandomCrop{{45, 10}}}};
  DataLoaderOptions options = canvas_options(1);
  options.shuffle = false;
  DataLoader loader(std::make_shared<PictureSet>(), chain, options);
  EXPECT_THAT(message_of_next(loader), AllOf(HasSubstr("sample 0"), HasSubstr("transform 'crop'"),
                                             HasSubstr("smaller than 45 x 10")));
  options.on_bad_sample = OnBadSample::skip;
  DataLoader skips(std::make_shared<PictureSet>(), chain, options);
  take(skips, 2);
  EXPECT_THAT(skips.skipped().samples, testing::Not(testing::IsEmpty()));
}

TEST(LoaderCanvas, MasksOfAnotherSizeAreResizedOrReported) {
  const auto set =
      made_set(8, {image_field(), mask_field("mask", 0)}, [](std::size_t index, Sample& out) {
        const MutableArray image = out.fields[0].array.reset(DType::uint8, {9, 8, 3});
        const MutableArray mask = out.fields[1].array.reset(DType::uint8, {8, 8});
        for (std::size_t i = 0; i < image.bytes(); ++i) image.data[i] = sample_pixel(index, i);
        for (std::size_t i = 0; i < mask.bytes(); ++i) mask.data[i] = sample_pixel(index, i);
      });
  const std::vector<NamedOp> resize = {{"resize", Resize{{5, 6}}}};
  EXPECT_EQ(load_values(set, resize, canvas_options(1)),
            load_values(set, resize, canvas_options(0)));
  DataLoader loader(set, {{"crop", RandomResizedCrop{4}}}, canvas_options(1));
  EXPECT_THAT(message_of_next(loader), HasSubstr("make them the same size"));
}

}  // namespace
}  // namespace slipstream
