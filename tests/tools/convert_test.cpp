#include "tools/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "core/files.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/image_records.h"
#include "support/thrown.h"
#include "tools/scenes_test.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ConvertTest : public ScenesTest {
 protected:
  fs::path out() const { return folder_.path() / "out"; }

  static ConvertOptions options_for(std::size_t samples_per_shard) {
    ConvertOptions options;
    options.samples_per_shard = samples_per_shard;
    options.threads = 3;
    return options;
  }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(out()))
      if (entry.path().extension() != ".slipstream-index")
        all[entry.path().filename().string()] = read_text(entry.path());
    return all;
  }

  std::string refusal(const Dataset& dataset, const ConvertOptions& options) const {
    try {
      convert_to_shards(dataset, out(), options);
    } catch (const Refused& refused) {
      return refused.what();
    }
    return "";
  }
};

std::vector<std::byte> stored(const Dataset& dataset, std::size_t index, std::size_t field) {
  Sample sample;
  sample.fields.resize(dataset.fields().size());
  dataset.read(index, sample);
  const ConstArray value = sample.fields[field].array.view();
  return {value.data, value.data + value.bytes()};
}

TEST_F(ConvertTest, FilesWithoutTransformsAreCopiedUnchanged) {
  const Converted done = convert_to_shards(*source(), out(), options_for(5));
  EXPECT_EQ(done.parts, 5U);
  EXPECT_EQ(done.written, 5U);
  EXPECT_TRUE(done.is_complete);
  const auto shards = tar_shards({out()});
  ASSERT_EQ(shards->size(), kSamples);
  for (std::size_t i = 0; i < kSamples; ++i)
    for (std::size_t field = 0; field < 2; ++field)
      EXPECT_EQ(stored(*shards, i, field), stored(*source(), i, field)) << i;
  EXPECT_THAT(check_converted(out()), IsEmpty());
}

TEST_F(ConvertTest, TransformsAreAppliedToImagesAndMasks) {
  ConvertOptions options = options_for(100);
  options.transforms = {{"small", Resize{{16, 12}}}};
  options.quality = 100;
  convert_to_shards(*source(), out(), options);
  const auto shards = tar_shards({out()});
  HostArray image, mask, whole, spare;
  decode_rgb(stored(*shards, 3, 0), {}, image);
  EXPECT_EQ(image.view().shape, (Shape{16, 12, 3}));
  decode_mask(stored(*shards, 3, 1), {}, mask);
  decode_mask(stored(*source(), 3, 1), {}, whole);
  Scratch scratch;
  options.transforms = {};
  Resize{{16, 12}}.apply({}, FieldKind::mask, whole.view(), spare.reset(DType::uint8, {16, 12}),
                         scratch);
  EXPECT_TRUE(std::equal(mask.view().data, mask.view().data + 16 * 12, spare.view().data));
}

TEST_F(ConvertTest, ShardsKeepClassLabels) {
  const auto labeled = synthetic_classification({.samples = 7, .size = 8, .classes = 300 / 2});
  convert_to_shards(*labeled, out(), options_for(3));
  const auto shards = tar_shards({out()});
  for (std::size_t i = 0; i < 7; ++i) {
    std::int64_t label = 0;
    const auto bytes = stored(*shards, i, 1);
    std::memcpy(&label, bytes.data(), sizeof label);
    EXPECT_EQ(label, std::to_integer<std::int64_t>(stored(*labeled, i, 1)[0]));
  }
}

TEST_F(ConvertTest, StoppedConversionResumesWithSameResult) {
  convert_to_shards(*source(), out(), options_for(4));
  const auto whole = files();
  fs::rename(out(), folder_.path() / "whole");

  ConvertOptions options = options_for(4);
  options.threads = 1;
  int asked = 0;
  options.stop = [&] { return ++asked > 10; };
  const Converted stopped = convert_to_shards(*source(), out(), options);
  EXPECT_FALSE(stopped.is_complete);
  EXPECT_EQ(stopped.written, 2U);
  const Converted rest = convert_to_shards(*source(), out(), options_for(4));
  EXPECT_TRUE(rest.is_complete);
  EXPECT_EQ(rest.written, 4U);
  EXPECT_EQ(files(), whole);
}

TEST_F(ConvertTest, MissingOrTruncatedShardIsWrittenAgain) {
  convert_to_shards(*source(), out(), options_for(6));
  const auto whole = files();
  fs::remove(out() / "shard-000001.tar");
  fs::resize_file(out() / "shard-000002.tar", 1000);
  EXPECT_THAT(check_converted(out()),
              ElementsAre(HasSubstr("shard-000001.tar' is missing"), HasSubstr("has 1000 bytes")));
  EXPECT_EQ(convert_to_shards(*source(), out(), options_for(6)).written, 2U);
  EXPECT_EQ(files(), whole);
}

TEST_F(ConvertTest, CheckReportsAChangedByte) {
  convert_to_shards(*source(), out(), options_for(30));
  std::fstream shard(out() / "shard-000000.tar", std::ios::binary | std::ios::in | std::ios::out);
  shard.seekp(700);
  shard.put('x');
  shard.close();
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr("has changed")));
}

TEST_F(ConvertTest, OtherSettingsAreRefusedWithTheDifferences) {
  convert_to_shards(*source(), out(), options_for(6));
  ConvertOptions other = options_for(7);
  other.transforms = {{"small", Resize{{16, 12}}}};
  other.background = {255, 255, 255};
  EXPECT_THAT(refusal(*source(), other),
              AllOf(HasSubstr("holds another conversion:\n"),
                    HasSubstr("its samples_per_shard: 6, wanted: 7\n"),
                    HasSubstr("its transform 1, \"small\", is missing\n"),
                    HasSubstr("its background: the default, wanted: [255,255,255]\n"),
                    HasSubstr("give another folder"), Not(HasSubstr("quality"))));
}

TEST_F(ConvertTest, ManifestKeepsClassNames) {
  const auto opened = [&](const fs::path& dir, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      fs::create_directories(dir / name);
      fs::copy_file(scenes() / "images" / "000000.jpg", dir / name / "1.jpg");
    }
    return image_folder(dir);
  };
  const auto animals = opened(folder_.path() / "animals", {"cat", "dog"});
  convert_to_shards(*animals, out(), options_for(1));
  EXPECT_THAT(open_dataset(out())->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(class_names_from(out()), ElementsAre("cat", "dog"));
  EXPECT_THAT(refusal(*opened(folder_.path() / "birds", {"hen", "owl"}), options_for(1)),
              AllOf(HasSubstr("it was made from other data"),
                    HasSubstr("class 0 is 'cat', not 'hen' as wanted")));
  EXPECT_THAT(refusal(*opened(folder_.path() / "more", {"cat", "dog", "elk"}), options_for(1)),
              HasSubstr("class 2, 'elk', is missing\n"));
  const std::string no_utf8 = "d\xffg";
  const fs::path odd = folder_.path() / "odd";
  convert_to_shards(*opened(folder_.path() / "odd animals", {no_utf8}), odd, options_for(1));
  EXPECT_THAT(open_dataset(odd)->class_names(), ElementsAre("d\\xffg"));
  EXPECT_NO_THROW(open_dataset(odd, {no_utf8, "hen"}));
  const fs::path npy = folder_.path() / "npy";
  ConvertOptions options = options_for(1);
  options.transforms = {{"small", Resize{{8, 8}}}};
  convert_to_npy(*animals, npy, options);
  EXPECT_THAT(open_dataset(npy)->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(thrown_by([&] {
                open_dataset(npy, {"dog", "cat"});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("class 0 is 'cat', not 'dog'")));
}

TEST_F(ConvertTest, TransparentPixelsShowTheBackground) {
  const ImageRecord drawn = image_record("rgba.png");
  fs::create_directories(folder_.path() / "drawn" / "a");
  write_file_atomically(folder_.path() / "drawn" / "a" / "1.png", drawn.file);
  const auto drawings = image_folder(folder_.path() / "drawn");
  std::vector<Levels> made;
  for (const Rgb& background : {Rgb{0, 0, 0}, Rgb{255, 255, 255}}) {
    ConvertOptions options = options_for(1);
    options.transforms = {{"as it is", Resize{{drawn.shape[0], drawn.shape[1]}}}};
    options.background = background;
    const fs::path npy = folder_.path() / ("npy" + std::to_string(background[0]));
    convert_to_npy(*drawings, npy, options);
    HostArray expected;
    decode_rgb(drawn.file, {.background = background}, expected);
    const std::vector<std::byte> image = stored(*open_dataset(npy), 0, 0);
    EXPECT_THAT(image, ElementsAreArray(as_bytes(expected.view())));
    made.push_back(copy_levels(expected));
  }
  EXPECT_NE(made[0], made[1]);
}

TEST_F(ConvertTest, OtherSourceDataIsRefused) {
  convert_to_shards(*source(), out(), options_for(6));
  MakeDataOptions options;
  options.samples = kSamples;
  options.seed = 2;
  make_segmentation_data(folder_.path() / "others", options);
  EXPECT_THAT(refusal(*segmentation_folder(folder_.path() / "others", 10), options_for(6)),
              HasSubstr("holds another conversion"));
}

TEST_F(ConvertTest, UnfinishedConversionIsRefusedAsDataset) {
  ConvertOptions options = options_for(4);
  options.threads = 1;
  int asked = 0;
  options.stop = [&] { return ++asked > 10; };
  convert_to_shards(*source(), out(), options);
  const std::string unfinished_message =
      "is not finished: 2 of 6 shards; run the same convert again";
  EXPECT_THAT(thrown_by([&] { open_dataset(out()); }), HasSubstr(unfinished_message));
  EXPECT_THAT(thrown_by([&] { tar_shards({out()}); }), HasSubstr(unfinished_message));
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr(unfinished_message)));
  convert_to_shards(*source(), out(), options_for(4));
  EXPECT_EQ(open_dataset(out())->size(), kSamples);
}

TEST_F(ConvertTest, ConversionThatWroteNothingIsRefusedAsDataset) {
  fs::resize_file(scenes() / "images" / "000000.jpg", 100);
  ConvertOptions options = options_for(30);
  EXPECT_THROW(convert_to_shards(*source(), out(), options), Error);
  EXPECT_THAT(thrown_by([&] { open_dataset(out()); }),
              AllOf(StartsWith("Refused: the conversion in '"),
                    HasSubstr("is not finished: nothing is written yet")));
}

TEST_F(ConvertTest, NegativeLabelThrowsWithSampleNumber) {
  std::vector<ArrayField> fields(2);
  HostArray images, labels;
  images.reset(DType::uint8, {3, 4, 4, 3});
  const std::int64_t numbers[] = {0, 1, -1};
  std::memcpy(labels.reset(DType::int64, {3}).data, numbers, sizeof(numbers));
  fields[0] = {"image", FieldKind::image, std::move(images), 0};
  fields[1] = {"label", FieldKind::label, std::move(labels), 0};
  const auto data = tensor_dataset(std::move(fields));
  EXPECT_THAT(thrown_by([&] { convert_to_shards(*data, out(), options_for(2)); }),
              AllOf(HasSubstr("sample 2 ("), HasSubstr("label is -1")));
}

TEST_F(ConvertTest, InvalidOptionsAreRefusedTogether) {
  ConvertOptions options = options_for(0);
  options.quality = 0;
  options.transforms = {{"flip", RandomHorizontalFlip{0.5}}, {"scale", ToDtype{.scale = true}}};
  const std::string message = refusal(*source(), options);
  for (const char* words : {"quality is 0", "at least 1 sample", "'flip' is random", "not uint8"})
    EXPECT_THAT(message, HasSubstr(words));
}

TEST_F(ConvertTest, BadSampleThrowsAndKeepsFinishedShards) {
  fs::resize_file(scenes() / "images" / "000020.jpg", 100);
  ConvertOptions options = options_for(6);
  options.threads = 1;
  options.transforms = {{"small", Resize{{8, 8}}}};
  try {
    convert_to_shards(*source(), out(), options);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 20 ("));
    EXPECT_THAT(error.what(), HasSubstr("000020.jpg"));
  }
  EXPECT_TRUE(fs::exists(out() / "shard-000002.tar"));
  EXPECT_FALSE(fs::exists(out() / "shard-000003.tar"));
  EXPECT_FALSE(fs::exists(out() / "shard-000003.tar.part"));
}

TEST_F(ConvertTest, ConcurrentConversionIntoOneFolderIsRefused) {
  ConvertOptions options = options_for(6);
  std::string shards, npy;
  options.progress = [&](std::size_t, std::size_t) {
    if (!shards.empty()) return;
    shards = thrown_by([&] { convert_to_shards(*source(), out(), options_for(6)); });
    ConvertOptions small = options_for(6);
    small.transforms = {{"small", Resize{{8, 8}}}};
    npy = thrown_by([&] { convert_to_npy(*source(), out(), small); });
  };
  EXPECT_TRUE(convert_to_shards(*source(), out(), options).is_complete);
  for (const std::string& message : {shards, npy})
    EXPECT_THAT(message, AllOf(HasSubstr("Refused: another convert is writing to '"),
                               HasSubstr(out().string())));
  EXPECT_EQ(convert_to_shards(*source(), out(), options_for(6)).written, 0U);
}

TEST_F(ConvertTest, DamagedFileThrowsEvenWithoutTransforms) {
  fs::resize_file(scenes() / "images" / "000020.jpg", 300);
  EXPECT_THAT(thrown_by([&] { convert_to_shards(*source(), out(), options_for(6)); }),
              AllOf(HasSubstr("sample 20 ("), HasSubstr("000020.jpg")));
}

TEST_F(ConvertTest, SkippedBadSamplesAreOmittedAndListed) {
  for (const char* name : {"000003.jpg", "000018.jpg", "000020.jpg"})
    fs::resize_file(scenes() / "images" / name, 300);
  ConvertOptions options = options_for(6);
  EXPECT_THAT(thrown_by([&] { convert_to_shards(*source(), out(), options); }),
              HasSubstr("sample 3 ("));
  options.on_bad_sample = OnBadSample::skip;
  const Converted done = convert_to_shards(*source(), out(), options);
  EXPECT_TRUE(done.is_complete);
  ASSERT_EQ(done.skipped.size(), 3U);
  EXPECT_EQ(done.skipped[1].sample, 18U);
  EXPECT_THAT(done.skipped[1].message, HasSubstr("000018.jpg"));
  EXPECT_THAT(check_converted(out()), IsEmpty());
  const auto shards = open_dataset(out());
  ASSERT_EQ(shards->size(), kSamples - 3);
  EXPECT_EQ(stored(*shards, 3, 0), stored(*source(), 4, 0));

  const auto whole = files();
  fs::remove(out() / "shard-000001.tar");
  const Converted again = convert_to_shards(*source(), out(), options);
  EXPECT_EQ(again.written, 1U);
  EXPECT_EQ(again.skipped.size(), 3U);
  EXPECT_EQ(files(), whole);
  options.on_bad_sample = OnBadSample::stop;
  EXPECT_THAT(thrown_by([&] { convert_to_shards(*source(), out(), options); }),
              HasSubstr("sample 3 ("));
}

TEST_F(ConvertTest, ShardWithOnlyBadSamplesIsNotWritten) {
  for (const char* name : {"000002.jpg", "000003.jpg"})
    fs::resize_file(scenes() / "images" / name, 300);
  ConvertOptions options = options_for(2);
  options.on_bad_sample = OnBadSample::skip;
  EXPECT_TRUE(convert_to_shards(*source(), out(), options).is_complete);
  EXPECT_FALSE(fs::exists(out() / "shard-000001.tar"));
  EXPECT_FALSE(fs::exists(out() / "shard-000001.tar.part"));
  EXPECT_THAT(check_converted(out()), IsEmpty());
  EXPECT_EQ(convert_to_shards(*source(), out(), options).written, 0U);
  EXPECT_EQ(open_dataset(out())->size(), kSamples - 2);
}

TEST_F(ConvertTest, AllSamplesBadThrows) {
  for (const auto& entry : fs::directory_iterator(scenes() / "images"))
    fs::resize_file(entry.path(), 300);
  ConvertOptions options = options_for(6);
  options.on_bad_sample = OnBadSample::skip;
  EXPECT_THAT(thrown_by([&] { convert_to_shards(*source(), out(), options); }),
              AllOf(HasSubstr("all 23 samples are bad"), HasSubstr("000000.jpg")));
}

TEST_F(ConvertTest, FullDiskErrorGivesAdvice) {
  fs::create_directories(out());
  fs::create_symlink("/dev/full", out() / "shard-000000.tar.part");
  try {
    convert_to_shards(*source(), out(), options_for(6));
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("shard-000000.tar.part"));
    EXPECT_THAT(error.what(), HasSubstr("continues where this one stopped"));
  }
}

TEST(TakeFixedTransforms, StopsAtTheFirstRandomTransform) {
  std::vector<NamedOp> chain = {{"small", Resize{{8, 8}}},
                                {"flip", RandomHorizontalFlip{0.5}},
                                {"scale", ToDtype{.scale = true}}};
  const auto fixed = take_fixed_transforms(chain);
  ASSERT_EQ(fixed.size(), 1U);
  EXPECT_EQ(fixed[0].name, "small");
  ASSERT_EQ(chain.size(), 2U);
  EXPECT_EQ(chain[0].name, "flip");
}

}  // namespace
}  // namespace slipstream
