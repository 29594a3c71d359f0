#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>

#include "core/files.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "support/write_limit.h"
#include "tools/convert.h"
#include "tools/scenes_test.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::int64_t kHeight = 16, kWidth = 12;
constexpr std::size_t kHeaderBytes = 128, kImageBytes = kHeight * kWidth * 3;

class ToNpyTest : public ScenesTest {
 protected:
  fs::path out() const { return folder_.path() / "d\u00f6g and cat"; }

  static ConvertOptions options_for(std::size_t block, unsigned threads = 3) {
    ConvertOptions options;
    options.samples_per_shard = block;
    options.threads = threads;
    options.transforms = {{"small", Resize{{kHeight, kWidth}}}};
    return options;
  }

  Converted convert(const ConvertOptions& options) const {
    return convert_to_npy(*source(), out(), options);
  }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(out()))
      if (entry.path().filename() != ".convert.lock")
        all[entry.path().filename().string()] = read_text(entry.path());
    return all;
  }

  /// Returns the files of an undisturbed conversion.
  std::map<std::string, std::string> files_of_one_run(std::size_t block) const {
    convert(options_for(block));
    auto all = files();
    fs::remove_all(out());
    return all;
  }

  void overwrite(const std::string& name, std::size_t at) const {
    std::fstream file(out() / name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int there = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(there ^ 1));
  }
};

std::string read_field(const Dataset& dataset, std::size_t index, std::size_t field) {
  Sample sample;
  dataset.read(index, sample);
  const ConstArray value = sample.fields[field].array.view();
  return {value.as<char>(), value.as<char>() + value.bytes()};
}

TEST_F(ToNpyTest, FilesHoldTransformedSamples) {
  const Converted done = convert(options_for(5));
  EXPECT_EQ(done.parts, 5U);
  EXPECT_EQ(done.written, 5U);
  EXPECT_TRUE(done.is_complete);
  const auto maps = open_dataset(out());
  const auto fields = maps->fields();
  ASSERT_THAT(fields, SizeIs(2));
  EXPECT_EQ(maps->size(), kSamples);
  EXPECT_EQ(fields[0].kind, FieldKind::image);
  EXPECT_EQ(fields[0].shape, (Shape{kHeight, kWidth, 3}));
  EXPECT_EQ(fields[1].name, "label");
  EXPECT_EQ(fields[1].kind, FieldKind::mask);
  EXPECT_EQ(fields[1].dtype, DType::uint8);
  EXPECT_EQ(fields[1].classes, 10);
  Sample sample;
  HostArray decoded, expected;
  Scratch scratch;
  const Resize resize{{kHeight, kWidth}};
  for (std::size_t i = 0; i < kSamples; ++i) {
    source()->read(i, sample);
    for (std::size_t k = 0; k < 2; ++k) {
      source()->decode(source()->fields()[k], {}, sample.fields[k], decoded);
      const Shape shape = fields[k].shape;
      resize.apply({}, fields[k].kind, sample.fields[k].array.view(),
                   expected.reset(DType::uint8, shape), scratch);
      const ConstArray view = expected.view();
      EXPECT_EQ(read_field(*maps, i, k),
                std::string(view.as<char>(), view.as<char>() + view.bytes()));
    }
  }
  EXPECT_THAT(check_converted(out()), IsEmpty());
}

TEST_F(ToNpyTest, FilesAreTheSameForAnyThreadCount) {
  convert(options_for(4, 1));
  const auto one = files();
  EXPECT_THAT(one, SizeIs(3));
  fs::remove_all(out());
  convert(options_for(4, 4));
  EXPECT_EQ(files(), one);
}

TEST_F(ToNpyTest, StoppedConversionResumesWithSameResult) {
  const auto whole = files_of_one_run(4);
  ConvertOptions options = options_for(4, 1);
  int asked = 0;
  options.stop = [&] { return ++asked > 10; };
  const Converted stopped = convert(options);
  EXPECT_FALSE(stopped.is_complete);
  EXPECT_EQ(stopped.written, 2U);
  EXPECT_TRUE(fs::exists(out() / "image.npy.part"));
  EXPECT_FALSE(fs::exists(out() / "image.npy"));
  EXPECT_THAT(thrown_by([&] { open_dataset(out()); }),
              AllOf(StartsWith("Refused: "), HasSubstr("not finished: 2 of 6 blocks")));
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr("not finished")));
  std::vector<std::size_t> progress;
  options = options_for(4, 1);
  options.progress = [&](std::size_t done, std::size_t all) {
    EXPECT_EQ(all, 6U);
    progress.push_back(done);
  };
  EXPECT_EQ(convert(options).written, 4U);
  EXPECT_THAT(progress, ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(files(), whole);
  EXPECT_EQ(convert(options_for(4)).written, 0U);
}

TEST_F(ToNpyTest, KilledConversionResumesWithSameResult) {
  const auto whole = files_of_one_run(4);
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ConvertOptions options = options_for(4, 1);
    options.progress = [](std::size_t done, std::size_t) {
      if (done == 3) ::kill(::getpid(), SIGKILL);
    };
    convert(options);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(convert(options_for(4)).written, 3U);
  EXPECT_EQ(files(), whole);
}

TEST_F(ToNpyTest, FullDiskThrowsAndTheNextRunResumes) {
  const auto whole = files_of_one_run(4);
  std::string error;
  {
    const WriteLimit limit(kHeaderBytes + 9 * kImageBytes);
    error = thrown_by([&] { convert(options_for(4)); });
  }
  EXPECT_THAT(error, AllOf(StartsWith("Error: "), HasSubstr("cannot write '"),
                           HasSubstr("image.npy.part': File too large"),
                           HasSubstr("continues where this one stopped")));
  EXPECT_EQ(convert(options_for(4)).written, 4U);
  EXPECT_EQ(files(), whole);
}

TEST_F(ToNpyTest, InterruptedRenameIsFinishedByTheNextRun) {
  const auto whole = files_of_one_run(4);
  convert(options_for(4));
  fs::rename(out() / "label.npy", out() / "label.npy.part");
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr("label.npy' is missing")));
  const Converted done = convert(options_for(4));
  EXPECT_TRUE(done.is_complete);
  EXPECT_EQ(done.written, 0U);
  EXPECT_EQ(files(), whole);
}

TEST_F(ToNpyTest, ChangedBlocksAreFoundAndWrittenAgain) {
  convert(options_for(6));
  const auto whole = files();
  overwrite("image.npy", kHeaderBytes + 13 * kImageBytes);
  EXPECT_THAT(check_converted(out()),
              ElementsAre(HasSubstr("image.npy' has changed: samples 12 to 17")));
  EXPECT_EQ(convert(options_for(6)).written, 1U);
  EXPECT_EQ(files(), whole);

  overwrite("label.npy", 70);
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr("its header differs")));
  EXPECT_EQ(convert(options_for(6)).written, 0U);
  EXPECT_EQ(files(), whole);

  fs::resize_file(out() / "image.npy", kHeaderBytes + 20 * kImageBytes);
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr("image.npy' has ")));
  EXPECT_EQ(convert(options_for(6)).written, 1U);
  EXPECT_EQ(files(), whole);

  std::ofstream(out() / "label.npy", std::ios::app).put('x');
  EXPECT_THAT(check_converted(out()), ElementsAre(HasSubstr("label.npy' has ")));
  fs::remove(out() / "image.npy");
  EXPECT_THAT(check_converted(out()),
              ElementsAre(HasSubstr("image.npy' is missing"), HasSubstr("label.npy' has ")));
  EXPECT_EQ(convert(options_for(6)).written, 4U);
  EXPECT_EQ(files(), whole);
}

TEST_F(ToNpyTest, FileOfAnotherConversionThrowsOnOpen) {
  convert(options_for(6));
  const auto whole = files();
  ConvertOptions other = options_for(6);
  other.transforms = {{"small", Resize{{kWidth, kHeight}}}};
  fs::remove_all(out());
  convert(other);
  write_file_atomically(out() / "image.npy", whole.at("image.npy"));
  EXPECT_THAT(thrown_by([&] { open_dataset(out()); }),
              AllOf(StartsWith("Error: "), HasSubstr("image.npy' is not the file")));
}

TEST_F(ToNpyTest, OtherSettingsAndFormatsAreRefused) {
  convert(options_for(6));
  EXPECT_THAT(thrown_by([&] { convert(options_for(7)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("holds another conversion")));
  EXPECT_THAT(thrown_by([&] { convert_to_shards(*source(), out(), options_for(6)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("holds another conversion")));
  fs::copy(scenes(), folder_.path() / "others", fs::copy_options::recursive);
  EXPECT_THAT(thrown_by([&] {
                convert_to_npy(*segmentation_folder(folder_.path() / "others", 10), out(),
                               options_for(6));
              }),
              HasSubstr("holds another conversion"));
  const fs::path shards = folder_.path() / "shards";
  convert_to_shards(*source(), shards, options_for(6));
  EXPECT_THAT(thrown_by([&] { convert_to_npy(*source(), shards, options_for(6)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("holds another conversion")));
}

TEST_F(ToNpyTest, ImagesOfDifferentSizesAreRefusedWithAdvice) {
  ConvertOptions options = options_for(0);
  options.transforms = {{"flip", RandomHorizontalFlip{0.5}}};
  const std::string message = thrown_by([&] { convert(options); });
  EXPECT_THAT(message, AllOf(StartsWith("Refused: "), HasSubstr("field 'image' has shape ? x ?"),
                             HasSubstr("--resize"), HasSubstr("'flip' is random"),
                             HasSubstr("at least 1 sample"), HasSubstr("field 'label' has shape")));
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(ToNpyTest, FloatImagesAreRefused) {
  ConvertOptions options = options_for(4);
  options.transforms.push_back({"scale", ToDtype{.scale = true}});
  EXPECT_THAT(thrown_by([&] { convert(options); }),
              HasSubstr("is float32 of shape 16 x 12 x 3: images are stored as uint8"));
}

TEST_F(ToNpyTest, BadSampleThrowsAndKeepsFinishedBlocks) {
  fs::resize_file(scenes() / "images" / "000020.jpg", 100);
  EXPECT_THAT(thrown_by([&] { convert(options_for(6, 1)); }),
              AllOf(StartsWith("Error: sample 20 ("), HasSubstr("000020.jpg")));
  fs::copy_file(scenes() / "images" / "000019.jpg", scenes() / "images" / "000020.jpg",
                fs::copy_options::overwrite_existing);
  fs::copy_file(scenes() / "masks" / "000019.png", scenes() / "masks" / "000020.png",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(convert(options_for(6)).written, 1U);
}

HostArray make_labels(DType dtype, const std::vector<std::int64_t>& values) {
  HostArray array;
  const MutableArray out = array.reset(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    if (dtype == DType::int64)
      out.as<std::int64_t>()[i] = values[i];
    else
      out.as<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
  return array;
}

TEST_F(ToNpyTest, SkippedBadSamplesAreOmittedAndListed) {
  for (const char* name : {"000003.jpg", "000018.jpg"})
    fs::resize_file(scenes() / "images" / name, 300);
  ConvertOptions options = options_for(4);
  options.on_bad_sample = OnBadSample::skip;
  const Converted done = convert(options);
  EXPECT_TRUE(done.is_complete);
  ASSERT_THAT(done.skipped, SizeIs(2));
  EXPECT_EQ(done.skipped[1].sample, 18U);
  EXPECT_THAT(done.skipped[1].message, AllOf(HasSubstr("sample 18 ("), HasSubstr("000018.jpg")));
  EXPECT_THAT(check_converted(out()), IsEmpty());
  const auto good = open_dataset(out());
  ASSERT_EQ(good->size(), kSamples - 2);

  const auto whole = files();
  overwrite("image.npy", kHeaderBytes + 5 * kImageBytes);
  const Converted again = convert(options);
  EXPECT_EQ(again.written, 1U);
  EXPECT_THAT(again.skipped, SizeIs(2));
  EXPECT_EQ(files(), whole);
  EXPECT_THAT(thrown_by([&] { convert(options_for(4)); }), HasSubstr("holds another conversion"));

  fs::remove_all(out());
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < kSamples; ++i)
    if (i != 3 && i != 18) indices.push_back(i);
  convert_to_npy(*subset(source(), indices), out(), options_for(4));
  EXPECT_EQ(files()["image.npy"], whole.at("image.npy"));
}

TEST_F(ToNpyTest, SkippingWithoutBadSamplesGivesSameFiles) {
  const auto whole = files_of_one_run(4);
  ConvertOptions options = options_for(4);
  options.on_bad_sample = OnBadSample::skip;
  EXPECT_TRUE(convert(options).is_complete);
  EXPECT_EQ(files(), whole);
  for (const auto& entry : fs::directory_iterator(scenes() / "images"))
    fs::resize_file(entry.path(), 300);
  fs::remove_all(out());
  EXPECT_THAT(thrown_by([&] { convert(options); }), HasSubstr("all 23 samples are bad"));
}

TEST_F(ToNpyTest, LabelsUseTheSmallestTypeForTheirClasses) {
  const auto data = tensor_dataset(
      {{"few", FieldKind::label, make_labels(DType::int64, {0, 255}), 256},
       {"many", FieldKind::label, make_labels(DType::int32, {0, 256}), 257},
       {"any", FieldKind::label, make_labels(DType::int64, {-1, std::int64_t{1} << 40}), 0}});
  convert_to_npy(*data, out(), {.samples_per_shard = 100});
  const auto maps = open_dataset(out());
  const auto fields = maps->fields();
  EXPECT_EQ(fields[0].dtype, DType::uint8);
  EXPECT_EQ(fields[0].classes, 256);
  EXPECT_EQ(fields[1].dtype, DType::int32);
  EXPECT_EQ(fields[2].dtype, DType::int64);
  EXPECT_EQ(read_field(*maps, 1, 0), "\xff");
  EXPECT_EQ(read_field(*maps, 1, 1), std::string("\0\1\0\0", 4));
  EXPECT_EQ(read_field(*maps, 0, 2), std::string(8, '\xff'));
}

TEST_F(ToNpyTest, ClassOutOfRangeThrows) {
  const auto data =
      tensor_dataset({{"label", FieldKind::label, make_labels(DType::int64, {0, 1, 3, 2}), 3}});
  EXPECT_THAT(thrown_by([&] { convert_to_npy(*data, out(), {.samples_per_shard = 2}); }),
              AllOf(StartsWith("Error: sample 2 ("),
                    HasSubstr("holds class 3, but there are 3 classes, 0 to 2")));
}

TEST_F(ToNpyTest, FieldNamesThatAreNoFileNamesAreRefused) {
  const auto data = tensor_dataset({{"../x", FieldKind::label, make_labels(DType::int64, {0}), 0}});
  EXPECT_THAT(thrown_by([&] { convert_to_npy(*data, out(), options_for(2)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'../x' cannot be a file name")));
}

TEST_F(ToNpyTest, OneSampleIsConvertedAndZeroThrow) {
  const auto one = synthetic_classification({.samples = 1, .size = 8, .classes = 3});
  const auto none = tensor_dataset({{"label", FieldKind::label, make_labels(DType::int64, {}), 3}});
  ConvertOptions options;
  EXPECT_EQ(convert_to_npy(*one, out(), options).parts, 1U);
  EXPECT_EQ(open_dataset(out())->size(), 1U);
  EXPECT_THAT(check_converted(out()), IsEmpty());
  const fs::path shards = folder_.path() / "shards";
  EXPECT_EQ(convert_to_shards(*one, shards, options).parts, 1U);
  EXPECT_EQ(open_dataset(shards)->size(), 1U);
  for (const auto& convert_to : {convert_to_npy, convert_to_shards})
    EXPECT_THAT(thrown_by([&] { convert_to(*none, folder_.path() / "none", options); }),
                StartsWith("Error: the data set is empty"));
}

TEST_F(ToNpyTest, DamagedManifestThrowsWithReason) {
  convert(options_for(6));
  std::string text = read_text(out() / "manifest.json");
  const auto expect = [&](const std::string& from, const std::string& to, const char* says) {
    std::string other = text;
    ASSERT_NE(other.find(from), std::string::npos);
    other.replace(other.find(from), from.size(), to);
    write_file_atomically(out() / "manifest.json", std::string_view(other));
    EXPECT_THAT(
        thrown_by([&] { open_dataset(out()); }),
        AllOf(StartsWith("Error: '"), HasSubstr("manifest.json' is damaged"), HasSubstr(says)));
  };
  expect("\"name\": \"image\"", "\"name\": \"../image\"", "is not a file's");
  expect("\"uint8\"", "\"u9\"", "no type 'u9'");
  expect("\"kind\": \"mask\"", "\"kind\": \"musk\"", "no kind 'musk'");
  expect("\"samples\": 23", "\"samples\": 29", "do not fit together");
  expect("\"samples_per_block\": 6", "\"samples_per_block\": 0", "do not fit together");
  expect("\"blocks\"", "\"blokcs\"", "damaged: key 'blocks' not found");
}

}  // namespace
}  // namespace slipstream
