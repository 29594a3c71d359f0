#include "tools/make_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "slipstream/datasets/datasets.h"
#include "support/image_records.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Files = std::map<std::string, std::string>;

struct Decoded {
  Shape shape;
  Levels image;
  Levels mask;
};

class MakeData : public testing::Test {
 protected:
  static MakeDataOptions small(std::size_t samples) {
    MakeDataOptions options;
    options.samples = samples;
    options.sizes = {32};
    return options;
  }

  fs::path made(const std::string& name, const MakeDataOptions& options) const {
    EXPECT_EQ(make_segmentation_data(folder_.path() / name, options), options.samples);
    return folder_.path() / name;
  }

  Files files(const std::string& name, const MakeDataOptions& options) const {
    const fs::path dir = made(name, options);
    Files all;
    for (const auto& entry : fs::recursive_directory_iterator(dir)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      all[fs::relative(entry.path(), dir)] = std::string(std::istreambuf_iterator<char>(file), {});
    }
    return all;
  }

  std::vector<Decoded> decoded(const std::string& name, const MakeDataOptions& options) const {
    const auto dataset = segmentation_folder(made(name, options), options.classes);
    const auto fields = dataset->fields();
    std::vector<Decoded> all(dataset->size());
    Sample sample;
    HostArray spare;
    for (std::size_t i = 0; i < all.size(); ++i) {
      dataset->read(i, sample);
      for (std::size_t f = 0; f < 2; ++f) dataset->decode(fields[f], {}, sample.fields[f], spare);
      all[i] = {sample.fields[0].array.view().shape, copy_levels(sample.fields[0].array),
                copy_levels(sample.fields[1].array)};
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(MakeData, WritesImageAndMaskPairs) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files("d", small(2))) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"images/000000.jpg", "images/000001.jpg",
                                             "masks/000000.png", "masks/000001.png"}));
}

TEST_F(MakeData, FilesAreTheSameForAnyThreadCount) {
  MakeDataOptions options = small(12);
  options.sizes = {16, 24, 40};
  options.qualities = {50, 90};
  options.gray_share = 0.3;
  options.threads = 1;
  const Files one = files("one", options);
  options.threads = 5;
  EXPECT_EQ(files("five", options), one);
}

TEST_F(MakeData, SamplesDoNotDependOnTheSampleCount) {
  const Files many = files("many", small(6)), few = files("few", small(3));
  EXPECT_GE(few.size(), 3U);
  for (const auto& [name, bytes] : few) EXPECT_EQ(many.at(name), bytes) << name;
}

TEST_F(MakeData, OtherSeedGivesOtherFiles) {
  MakeDataOptions options = small(1);
  const Files one = files("one", options);
  options.seed = 2;
  EXPECT_NE(files("two", options), one);
}

TEST_F(MakeData, ReplacesExistingFiles) {
  MakeDataOptions options = small(2);
  made("d", options);
  options.seed = 2;
  EXPECT_EQ(files("d", options), files("fresh", options));
}

TEST_F(MakeData, SamplesDecodeToGivenSizesAndClasses) {
  MakeDataOptions options = small(60);
  options.sizes = {16, 48};
  options.classes = 4;
  std::set<std::int64_t> sizes;
  std::set<int> numbers;
  for (const Decoded& sample : decoded("d", options)) {
    EXPECT_EQ(sample.shape[0], sample.shape[1]);
    sizes.insert(sample.shape[0]);
    numbers.insert(sample.mask.begin(), sample.mask.end());
  }
  EXPECT_EQ(sizes, (std::set<std::int64_t>{16, 48}));
  EXPECT_EQ(numbers, (std::set<int>{0, 1, 2, 3}));
}

TEST_F(MakeData, GrayShareSetsTheShareOfGrayImages) {
  const auto grays = [&](double share) {
    MakeDataOptions options = small(40);
    options.gray_share = share;
    int count = 0;
    for (const auto& [name, bytes] : files("gray" + std::to_string(share), options)) {
      if (!name.ends_with(".jpg")) continue;
      if (image_shape(std::as_bytes(std::span(bytes)))[2] == 1) ++count;
    }
    return count;
  };
  EXPECT_EQ(grays(0), 0);
  EXPECT_EQ(grays(1), 40);
  EXPECT_THAT(grays(0.5), AllOf(testing::Gt(5), testing::Lt(35)));
}

TEST_F(MakeData, QualityIsSampledPerImage) {
  const auto sizes = [&](const std::string& name, std::vector<int> qualities) {
    MakeDataOptions options = small(20);
    options.qualities = std::move(qualities);
    std::vector<std::size_t> all;
    for (const auto& [file, bytes] : files(name, options)) {
      if (file.ends_with(".jpg")) all.push_back(bytes.size());
    }
    return all;
  };
  const auto low = sizes("low", {10});
  const auto high = sizes("high", {95});
  const auto both = sizes("both", {10, 95});
  int of_low = 0;
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_LT(low[i], high[i]);
    EXPECT_TRUE(both[i] == low[i] || both[i] == high[i]);
    of_low += both[i] == low[i] ? 1 : 0;
  }
  EXPECT_THAT(of_low, AllOf(testing::Gt(0), testing::Lt(20)));
}

using Mean = std::array<double, 3>;

double distance(const Mean& mean, const std::uint8_t* pixel) {
  double sum = 0;
  for (std::size_t c = 0; c < 3; ++c) sum += (mean[c] - pixel[c]) * (mean[c] - pixel[c]);
  return sum;
}

/// Even the simplest learner, the nearest mean color, must predict most pixels of new scenes.
TEST_F(MakeData, NearestMeanColorPredictsMostPixels) {
  const std::vector<Decoded> samples = decoded("d", small(80));
  std::array<Mean, 10> sums{};
  std::array<double, 10> counts{};
  for (std::size_t s = 0; s < 60; ++s) {
    for (std::size_t i = 0; i < samples[s].mask.size(); ++i) {
      const std::size_t number = samples[s].mask[i];
      ++counts[number];
      for (std::size_t c = 0; c < 3; ++c) sums[number][c] += samples[s].image[3 * i + c];
    }
  }
  for (std::size_t n = 0; n < 10; ++n) {
    ASSERT_GT(counts[n], 0) << "class " << n << " does not occur";
    for (double& sum : sums[n]) sum /= counts[n];
  }
  double right = 0, all = 0, background = 0;
  for (std::size_t s = 60; s < 80; ++s) {
    for (std::size_t i = 0; i < samples[s].mask.size(); ++i, ++all) {
      const std::uint8_t* pixel = &samples[s].image[3 * i];
      const auto nearest = std::min_element(sums.begin(), sums.end(), [&](auto& a, auto& b) {
        return distance(a, pixel) < distance(b, pixel);
      });
      right += nearest - sums.begin() == samples[s].mask[i] ? 1 : 0;
      background += samples[s].mask[i] == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(right / all, 0.75);
  EXPECT_THAT(background / all, AllOf(testing::Gt(0.3), testing::Lt(0.7)));
}

TEST_F(MakeData, WritesOneFolderPerClass) {
  MakeDataOptions options = small(5);
  options.classes = 3;
  options.png_share = 1;
  const fs::path dir = folder_.path() / "d";
  EXPECT_EQ(make_classification_data(dir, options), 5U);
  const auto dataset = image_folder(dir);
  EXPECT_EQ(dataset->class_names(), (std::vector<std::string>{"class0", "class1", "class2"}));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < dataset->size(); ++i)
    names.push_back(fs::relative(dataset->name(i), dir));
  EXPECT_EQ(names,
            (std::vector<std::string>{"class0/000000.png", "class0/000003.png", "class1/000001.png",
                                      "class1/000004.png", "class2/000002.png"}));
}

TEST_F(MakeData, EveryClassVariesAtLeastAsMuchAsClassZero) {
  MakeDataOptions options = small(40);
  options.png_share = 1;
  const fs::path dir = folder_.path() / "d";
  make_classification_data(dir, options);
  const auto dataset = image_folder(dir);
  Sample sample;
  HostArray spare;
  std::map<std::int64_t, double> spread;  // mean range of an image's levels; a shape increases it
  for (std::size_t i = 0; i < dataset->size(); ++i) {
    dataset->read(i, sample);
    dataset->decode(dataset->fields()[0], {}, sample.fields[0], spare);
    const Levels levels = copy_levels(sample.fields[0].array);
    const auto [least, most] = std::minmax_element(levels.begin(), levels.end());
    spread[dataset->label(i)] += (*most - *least) / 4.0;
  }
  ASSERT_EQ(spread.size(), 10U);
  for (const auto& [label, levels] : spread) EXPECT_GE(levels, spread[0]) << label;
}

TEST_F(MakeData, PngShareSetsTheShareOfPngImages) {
  const auto pngs = [&](double share) {
    MakeDataOptions options = small(40);
    options.classes = 2;
    options.png_share = share;
    make_classification_data(folder_.path() / "d", options);
    std::map<std::string, int> count;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / "d"))
      if (entry.is_regular_file()) ++count[entry.path().extension()];
    EXPECT_EQ(count[".jpg"] + count[".png"], 40);
    return count[".png"];
  };
  EXPECT_EQ(pngs(0), 0);
  EXPECT_EQ(pngs(1), 40);
  EXPECT_THAT(pngs(0.5), AllOf(testing::Gt(5), testing::Lt(35)));
}

TEST_F(MakeData, ProgressReportsEverySample) {
  std::mutex mutex;
  std::multiset<std::size_t> reported;
  make_segmentation_data(folder_.path(), small(9), [&](std::size_t done) {
    const std::lock_guard lock(mutex);
    reported.insert(done);
  });
  EXPECT_EQ(reported, (std::multiset<std::size_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(MakeData, StopKeepsTheFirstSamples) {
  for (const unsigned threads : {1U, 3U}) {
    MakeDataOptions options = small(50);
    options.threads = threads;
    std::atomic<std::size_t> asked = 0;
    options.stop = [&] { return asked++ >= 10; };
    const fs::path dir = folder_.path() / std::to_string(threads);
    EXPECT_EQ(make_segmentation_data(dir, options), 10U);
    const auto images = fs::directory_iterator(dir / "images");
    EXPECT_EQ(std::distance(begin(images), end(images)), 10);
    EXPECT_TRUE(fs::exists(dir / "masks" / "000009.png"));
  }
}

TEST_F(MakeData, ErrorFromProgressIsRethrown) {
  const auto stop = [](std::size_t done) {
    if (done == 3) throw Error("enough");
  };
  EXPECT_EQ(thrown_by([&] { make_segmentation_data(folder_.path(), small(100), stop); }),
            "Error: enough");
}

TEST_F(MakeData, FolderWithOtherFilesIsRefused) {
  const fs::path scenes = folder_.path() / "scenes", classes = folder_.path() / "classes";
  for (int i = 0; i < 2; ++i) {  // the second time over its own files
    make_segmentation_data(scenes, small(2));
    make_classification_data(classes, small(2));
    std::ofstream(classes / ".hidden") << "x";
  }
  EXPECT_THAT(
      thrown_by([&] { make_classification_data(scenes, small(2)); }),
      AllOf(StartsWith("Refused: '" + scenes.string() + "' holds '"),
            HasSubstr("which is not a part of data for classification: give a new or empty")));
  EXPECT_THAT(thrown_by([&] { make_segmentation_data(classes, small(2)); }),
              HasSubstr("not a part of data for segmentation"));
  EXPECT_FALSE(fs::exists(scenes / "class0"));
  EXPECT_FALSE(fs::exists(classes / "images"));
  std::ofstream(classes / "class10") << "x";
  EXPECT_THAT(thrown_by([&] { make_classification_data(classes, small(2)); }),
              HasSubstr("holds 'class10'"));
}

TEST_F(MakeData, InvalidOptionsAreAllReported) {
  MakeDataOptions options;
  options.samples = 0;
  options.sizes = {64, 7};
  options.qualities = {};
  options.classes = 11;
  options.gray_share = -0.1;
  options.png_share = 1.1;
  EXPECT_THAT(
      thrown_by([&] { made("d", options); }),
      AllOf(StartsWith("Refused: "), HasSubstr("samples must be 1"), HasSubstr("size must be 8"),
            HasSubstr("quality must be 1"), HasSubstr("classes must be 2"),
            HasSubstr("gray share must be 0"), HasSubstr("PNG share must be 0")));
  EXPECT_FALSE(fs::exists(folder_.path() / "d"));
}

TEST_F(MakeData, FolderThatCannotBeCreatedIsRefused) {
  std::ofstream(folder_.path() / "file") << "text";
  EXPECT_THAT(thrown_by([&] { made("file", small(1)); }),
              AllOf(StartsWith("Refused: cannot create the folder"), HasSubstr("file/images")));
  EXPECT_THAT(thrown_by([] { make_segmentation_data("/proc/nothing", {}); }),
              StartsWith("Refused: cannot create the folder"));
}

TEST_F(MakeData, WriteErrorNamesTheFile) {
  fs::create_directories(folder_.path() / "d" / "images" / "000003.jpg");
  EXPECT_THAT(thrown_by([&] { made("d", small(5)); }),
              AllOf(StartsWith("Error: cannot write"), HasSubstr("images/000003.jpg")));
}

}  // namespace
}  // namespace slipstream
