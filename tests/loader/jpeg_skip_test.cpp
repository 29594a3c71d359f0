#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "codecs/jpeg.h"
#include "codecs/jpeg_check.h"
#include "codecs/jpeg_engine.h"
#include "loader/jpeg_wire_fixture.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/jpeg_damage.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t kSkipBatches = 6;  // two epochs of 15 samples

Chain crop() { return {{"crop", RandomResizedCrop{{16, 24}}}, {"flip", RandomHorizontalFlip{}}}; }

Numbers sample_numbers(const SkippedSamples& skipped) {
  Numbers numbers;
  for (const SkippedSample& each : skipped.samples) numbers.push_back(each.sample);
  return numbers;
}

/// Takes all batches and waits until all slabs are filled, so that counts do not depend on the
/// speed of the workers.
class SkippingLoader {
 public:
  SkippingLoader(const std::shared_ptr<const Dataset>& dataset, const Chain& chain,
                 DataLoaderOptions options)
      : loader(dataset, chain, with_all_slabs_held(options)) {
    for (std::size_t i = 0; i < kSkipBatches; ++i) batches.push_back(loader.next());
    while (!loader.ready()) std::this_thread::yield();
  }

  DataLoader loader;
  std::vector<HostBatch> batches;

 private:
  static DataLoaderOptions& with_all_slabs_held(DataLoaderOptions& options) {
    options.on_bad_sample = OnBadSample::skip;
    options.prefetch_batches = 1;
    options.held_batches = kSkipBatches;
    return options;
  }
};

/// Compares with a loader that sends pixels instead of files; returns the number of sent files.
std::size_t expect_same_as_plain(const std::shared_ptr<const Dataset>& dataset, const Chain& chain,
                                 const DataLoaderOptions& options,
                                 const std::optional<Numbers>& skipped = std::nullopt) {
  const SkippingLoader packed(dataset, chain, options);
  DataLoaderOptions usual = options;
  usual.wire.clear();
  const SkippingLoader expected(dataset, chain, usual);
  std::size_t traveled = 0;
  for (std::size_t i = 0; i < kSkipBatches; ++i) {
    traveled +=
        compare(packed.loader, packed.batches[i], expected.loader, expected.batches[i]).size();
  }
  const SkippedSamples bad = packed.loader.skipped();
  EXPECT_EQ(sample_numbers(bad), skipped.value_or(sample_numbers(bad)));
  EXPECT_EQ(sample_numbers(bad), sample_numbers(expected.loader.skipped()));
  EXPECT_EQ(bad.replacements, expected.loader.skipped().replacements);
  if (options.num_workers > 1) return traveled;
  for (std::size_t i = 0; i < bad.samples.size(); ++i)
    EXPECT_EQ(bad.samples[i].message, expected.loader.skipped().samples[i].message);
  return traveled;
}

TEST(JpegSkip, EachDamagedFileIsSkippedAsWithPlainWire) {
  for (const JpegDamage& damage : jpeg_damages()) {
    const auto set = jpeg_set(15, {}, 60);
    damage.spoil(set->files[4]);
    for (const unsigned workers : {1U, 4U}) {
      SCOPED_TRACE(damage.name + ", " + std::to_string(workers) + " workers");
      EXPECT_GT(expect_same_as_plain(set, crop(), as_files(workers)), 0U);
    }
  }
}

TEST(JpegSkip, ManyDamagedFilesAreSkippedFromAnyFirstBatch) {
  const auto damages = jpeg_damages();
  const auto set = jpeg_set(2 * damages.size(), {1, 7}, 60);
  for (std::size_t i = 0; i < damages.size(); ++i) damages[i].spoil(set->files[2 * i]);
  for (const unsigned workers : {1U, 4U}) {
    DataLoaderOptions options = as_files(workers);
    for (const std::uint64_t first : {0U, 5U, 10U}) {
      options.first_batch = first;
      EXPECT_GT(expect_same_as_plain(set, crop(), options), 0U);
    }
  }
}

TEST(JpegSkip, FilesWithTrailingBytesAreSentAsFiles) {
  for (const JpegDamage& oddity : jpeg_oddities()) {
    SCOPED_TRACE(oddity.name);
    const auto set = jpeg_set(15, {}, 60);
    oddity.spoil(set->files[4]);
    EXPECT_EQ(expect_same_as_plain(set, crop(), as_files(), Numbers{}), kSkipBatches * kBatchSize);
  }
}

TEST(JpegSkip, BadMasksCropsAndProgressiveFilesAreSkipped) {
  const auto set = jpeg_set(15, {6}, 60);
  // Progressive files are decoded by workers.
  set->files[6].resize(set->files[6].size() / 2);
  set->masks[5].resize(set->masks[5].size() / 2);
  set->masks[7] = set->masks[8];  // its size differs from the image's, so no crop fits
  for (const unsigned workers : {1U, 4U}) {
    expect_same_as_plain(set, {{"resize", Resize{{16, 24}}}}, as_files(workers), Numbers{5, 6});
    expect_same_as_plain(set, {{"crop", RandomCrop{{80, 100}}}}, as_files(workers),
                         Numbers{0, 1, 2, 5, 6, 7, 9, 10, 11});
  }
}

TEST(JpegSkip, CachesAndCutsSkipTheSameSamples) {
  const auto set = jpeg_set(15, {}, 60);
  jpeg_damages()[1].spoil(set->files[4]);
  for (const bool is_cut : {false, true}) {
    DataLoaderOptions options = as_files(4);
    options.cache = CacheOptions{"read", 1 << 20};
    if (is_cut) options.cut = HostCut{"read", 15};
    expect_same_as_plain(set, crop(), options, Numbers{4});
  }
  DataLoaderOptions whole = as_files(4);
  whole.cut = HostCut{"collate", kSkipBatches};
  expect_same_as_plain(set, crop(), whole, Numbers{4});
}

TEST(JpegSkip, StopModeDecodesDamagedFilesInWorkers) {
  for (const JpegDamage& damage : jpeg_damages()) {
    SCOPED_TRACE(damage.name);
    const auto set = jpeg_set(10, {}, 60);
    damage.spoil(set->files[4]);
    DataLoaderOptions options = as_files();
    options.shuffle = false;
    const Chain resize = {{"resize", Resize{{16, 24}}}};
    DataLoader loader(set, resize, options);
    options.wire.clear();
    DataLoader expected(set, resize, options);
    const std::string error = message_of_next(expected);
    if (error != "nothing") {
      EXPECT_EQ(message_of_next(loader), error);
      continue;
    }
    DataLoader again(set, resize, options);
    const std::vector<std::uint64_t> others = {0, 1, 2, 3};
    EXPECT_EQ(compare(loader, loader.next(), again, again.next()), others);
    ASSERT_EQ(loader.skipped().tolerated.size(), 1U);
    EXPECT_EQ(loader.skipped().tolerated[0].sample, 4U);
    EXPECT_THAT(loader.skipped().tolerated[0].message, HasSubstr("sample 4 (picture 4.jpg"));
  }
}

TEST(JpegCheck, ChecksEachSampleUntilItIsSound) {
  const JpegFile good = jpeg_set(1)->files[0];
  JpegFile bad = good;
  jpeg_damages()[0].spoil(bad);
  JpegCheck check(130);
  for (const std::uint64_t sample : {0, 1, 63, 64, 129}) {
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(check.is_sound(sample, bad)) << sample;
    EXPECT_TRUE(check.is_sound(sample, good));
    EXPECT_TRUE(check.is_sound(sample, bad));
  }
  EXPECT_FALSE(check.is_sound(65, bad));
}

std::vector<JpegFile> pictures_of_each_kind() {
  std::vector<JpegFile> files;
  for (const int across : {1, 2})
    for (const int down : {1, 2})
      for (const int restart_rows : {0, 1}) {
        const JpegKind kind = {.across = across, .down = down, .restart_rows = restart_rows};
        files.push_back(write_jpeg(kind, 61, 83, photo_levels(1, 61, 83)));
        files.push_back(write_jpeg(kind, 161, 203, photo_levels(2, 161, 203)));
      }
  files.push_back(write_jpeg({.colors = JpegKind::Colors::gray}, 40, 50, noisy_levels(40, 50, 1)));
  return files;
}

/// Changes, removes or duplicates bytes at random positions.
void damage_anywhere(JpegFile& file, std::mt19937& random) {
  const std::size_t at = 2 + random() % (file.size() - 2);
  const auto from = file.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t count = std::min<std::size_t>(1 + random() % 12, file.size() - at);
  switch (random() % 4) {
    case 0:
      for (std::size_t i = at; i < at + count; ++i) file[i] = static_cast<std::byte>(random());
      break;
    case 1:
      file.erase(from, from + static_cast<std::ptrdiff_t>(count));
      break;
    case 2:
      file.insert(from, count, static_cast<std::byte>(random()));
      break;
    default:
      file[at] ^= static_cast<std::byte>(1U << random() % 8);
  }
}

TEST(JpegCheck, AgreesWithDecodingOnRandomlyDamagedFiles) {
  std::mt19937 random(7);
  std::size_t good = 0;
  std::size_t bad = 0;
  for (const JpegFile& whole : pictures_of_each_kind()) {
    for (int i = 0; i < 400; ++i) {
      JpegFile file = whole;
      damage_anywhere(file, random);
      if (!jpeg::shape_for_engines(file)) continue;
      HostArray out;
      std::string warning;
      const std::string error = thrown_by([&] { decode_rgb(file, {.warning = &warning}, out); });
      const bool is_sound = error == "nothing" && warning.empty();
      EXPECT_EQ(jpeg::is_sound(file), is_sound) << error << warning;
      ++(is_sound ? good : bad);
    }
  }
  EXPECT_GT(good, 500U);
  EXPECT_GT(bad, 500U);
}

}  // namespace
}  // namespace slipstream
