#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "loader/loader_fixture.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/made_set.h"
#include "support/picture_set.h"
#include "tools/scene.h"

namespace slipstream {
namespace {

constexpr DecodeOptions kExact = {};
constexpr DecodeOptions kScaled = {.scaled = true};
constexpr DecodeOptions kScaledWhole = {.partial = false, .scaled = true};

struct LoadedScaled {
  Bytes slab;
  SlabLayout layout;
  double decoded_bytes = 0;

  Bytes part(const std::string& name, std::size_t sample) const {
    const SlabField& field = layout.field(name);
    const auto* begin = slab.data() + field.offset_bytes + sample * field.sample_bytes;
    return {begin, begin + field.sample_bytes};
  }
};

/// Loads one batch of all samples in order. Decoded bytes are counted when the next batch is ready
/// and no slab is free, so that all workers are idle.
LoadedScaled run_scaled(const std::shared_ptr<const Dataset>& dataset, const NamedOp& first,
                        const DecodeOptions& decode,
                        OnBadSample on_bad_sample = OnBadSample::stop) {
  DataLoader loader(dataset, {first},
                    with(&DataLoaderOptions::held_batches, 1,
                         {{.batch_size = dataset->size(),
                           .shuffle = false,
                           .decode = decode,
                           .on_bad_sample = on_bad_sample},
                          {.prefetch_batches = 1}}));
  const HostBatch batch = loader.next();
  while (!loader.ready()) std::this_thread::yield();
  LoadedScaled taken{copy_slab_bytes(loader, batch), loader.layout(), 0};
  const StepCounter step = loader.counters()[1];
  taken.decoded_bytes = static_cast<double>(step.bytes);
  return taken;
}

TEST(LoaderScaled, ChangesOnlyJpegImages) {
  const auto dataset = std::make_shared<PictureSet>();
  const std::set<std::size_t> whole = {7, 12, 13};  // decoded at full size: PNG, rotated, CMYK
  for (const NamedOp& first :
       {NamedOp{"crop", RandomResizedCrop{{6, 5}, {0.5, 1}}}, NamedOp{"small", Resize{{9, 10}}}}) {
    const LoadedScaled exact = run_scaled(dataset, first, kExact);
    const LoadedScaled scaled = run_scaled(dataset, first, kScaled);
    EXPECT_LT(scaled.decoded_bytes, exact.decoded_bytes * 0.8);
    for (std::size_t i = 0; i < dataset->size(); ++i) {
      const bool is_equal = scaled.part("image", i) == exact.part("image", i);
      EXPECT_EQ(is_equal, whole.contains(i)) << first.name << i;
      EXPECT_EQ(scaled.part("mask", i), exact.part("mask", i)) << first.name << i;
      EXPECT_EQ(scaled.part("again", i), exact.part("again", i)) << first.name << i;
    }
  }
}

TEST(LoaderScaled, PartialDecodingGivesSameBytesAsWhole) {
  const auto dataset = std::make_shared<PictureSet>();
  for (const NamedOp& first : {NamedOp{"crop", RandomResizedCrop{{6, 5}}},
                               NamedOp{"crop", RandomResizedCrop{{14, 18}, {0.4, 0.7}}},
                               NamedOp{"small", Resize{{9, 10}}}}) {
    const LoadedScaled part = run_scaled(dataset, first, kScaled);
    const LoadedScaled whole = run_scaled(dataset, first, kScaledWhole);
    EXPECT_EQ(part.slab, whole.slab);
    EXPECT_EQ(part.decoded_bytes < whole.decoded_bytes, first.name == "crop");
    EXPECT_EQ(part.slab, run_scaled(dataset, first, kScaled, OnBadSample::skip).slab);
  }
}

TEST(LoaderScaled, ImagesReducedByLessThanTwoAreExact) {
  const auto dataset = std::make_shared<PictureSet>();
  for (const NamedOp& first :
       {NamedOp{"crop", RandomResizedCrop{{60, 20}}}, NamedOp{"crop", CenterCrop{5}},
        NamedOp{"crop", RandomCrop{{4, 6}, 1}}, NamedOp{"large", Resize{{20, 50}}}}) {
    EXPECT_EQ(run_scaled(dataset, first, kScaled).slab, run_scaled(dataset, first, kExact).slab)
        << first.name;
  }
}

/// Photo-like images: textured objects with sharp edges under uneven light, with noise.
std::shared_ptr<const Dataset> scene_files(std::size_t count) {
  HostArray image;
  HostArray mask;
  std::vector<Bytes> files;
  for (std::size_t i = 0; i < count; ++i) {
    draw_scene({.seed = 3, .sample = i}, 400, 10, image, mask);
    files.push_back(encode_jpeg(image.view(), 90));
  }
  return set_of_files(std::move(files));
}

double mean_difference(const Bytes& a, const Bytes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(std::to_integer<int>(a[i]) - std::to_integer<int>(b[i]));
  }
  return sum / static_cast<double>(a.size());
}

// docs/transforms.md states this tolerance.
TEST(LoaderScaled, MeanDifferenceFromExactIsAtMostThreeLevels) {
  const auto dataset = scene_files(12);
  for (const std::int64_t side : {180, 100, 50, 25}) {
    for (const NamedOp& first : {NamedOp{"crop", RandomResizedCrop{side, {0.9, 1}}},
                                 NamedOp{"small", Resize{{side, side}}}}) {
      const LoadedScaled exact = run_scaled(dataset, first, kExact);
      const LoadedScaled scaled = run_scaled(dataset, first, kScaled);
      for (std::size_t i = 0; i < dataset->size(); ++i) {
        const double mean = mean_difference(scaled.part("image", i), exact.part("image", i));
        EXPECT_LE(mean, 3) << first.name << " to " << side;
        EXPECT_GT(mean, 0) << first.name << " to " << side;
      }
    }
  }
}

}  // namespace
}  // namespace slipstream
