#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/files.h"
#include "datasets/npy_header.h"
#include "datasets/open_dataset.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "support/tar_writer.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class OpenDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    MakeDataOptions options;
    options.samples = 3;
    options.sizes = {8};
    make_segmentation_data(folder_.path(), options);
  }

  std::string refusal(const fs::path& path) const {
    try {
      open_dataset(path);
    } catch (const Refused& refused) {
      return refused.what();
    }
    return "";
  }

  static void touch(const fs::path& path) { std::ofstream(path).put('x'); }

  TemporaryFolder folder_;
};

TEST_F(OpenDatasetTest, FolderTypeIsDetectedFromContent) {
  EXPECT_EQ(open_dataset(folder_.path())->fields()[1].kind, FieldKind::mask);
  fs::remove(folder_.path() / "masks" / "000000.png");
  fs::rename(folder_.path() / "masks", folder_.path() / "more");
  const auto classes = open_dataset(folder_.path());
  EXPECT_EQ(classes->size(), 5U);
  EXPECT_EQ(classes->fields()[1].classes, 2);
}

TEST_F(OpenDatasetTest, ShardsNextToFoldersAreRefusedUnlessHidden) {
  fs::rename(folder_.path() / "masks", folder_.path() / "more");
  touch(folder_.path() / "._x.tar");
  EXPECT_EQ(open_dataset(folder_.path())->size(), 6U);
  touch(folder_.path() / "x.TAR");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("not clear which are the data"));
}

/// Writes an array of zeros.
void write_npy(const fs::path& path, DType dtype, const Shape& shape) {
  const std::string values(shape.elements() * size_bytes(dtype), '\0');
  write_file_atomically(path, std::string_view(npy_header({dtype, shape}) + values));
}

TEST_F(OpenDatasetTest, ArrayFieldKindsAreDetectedFromNameTypeAndShape) {
  const fs::path dir = folder_.path() / "a folder of arr\u00e4ys";
  fs::create_directory(dir);
  write_npy(dir / "boxes.npy", DType::float32, {5, 2, 4});
  write_npy(dir / "corners.npy", DType::float32, {5, 2, 4});
  write_npy(dir / "image.npy", DType::uint8, {5, 2, 3, 3});
  write_npy(dir / "label.npy", DType::int64, {5});
  write_npy(dir / "mask.npy", DType::int32, {5, 2, 3});
  write_npy(dir / "weight.npy", DType::float32, {5});
  write_npy(dir / "whole.npy", DType::uint8, {5, 2});
  const auto dataset = open_dataset(dir, 7);
  EXPECT_EQ(dataset->size(), 5U);
  std::string found;
  for (const FieldSpec& field : dataset->fields())
    found += field.name + std::to_string(static_cast<int>(field.kind)) + ":" +
             std::to_string(field.classes) + " ";
  EXPECT_EQ(found, "boxes4:0 corners3:0 image0:0 label2:7 mask1:0 weight3:0 whole3:0 ");
  write_npy(dir / "boxes.npy", DType::int32, {5, 2, 4});
  EXPECT_THAT(refusal(dir), HasSubstr("boxes are float32, N x boxes x 4"));
  const auto one = open_dataset(dir / "image.npy");
  ASSERT_EQ(one->fields().size(), 1U);
  EXPECT_EQ(one->fields()[0].kind, FieldKind::image);
}

TEST_F(OpenDatasetTest, ClassCountAppliesToTheLabelField) {
  const auto find_classes = [&](const std::vector<const char*>& members) {
    TarWriter tar;
    for (const char* name : members) tar.add(name, "1");
    tar.write(folder_.path() / "a.tar");
    std::string found;
    for (const FieldSpec& field : open_dataset(folder_.path() / "a.tar", 7)->fields())
      found += field.name + ":" + std::to_string(field.classes) + " ";
    return found;
  };
  EXPECT_EQ(find_classes({"1.jpg"}), "image:0 ");
  EXPECT_EQ(find_classes({"1.jpg", "1.cls"}), "image:0 label:7 ");
  EXPECT_EQ(find_classes({"1.jpg", "1.seg.png"}), "image:0 label:7 ");
  EXPECT_EQ(find_classes({"1.jpg", "1.cls", "1.seg.png"}), "image:0 label:7 mask:0 ");
}

TEST_F(OpenDatasetTest, UnusableArrayIsRefusedWithItsName) {
  const fs::path dir = folder_.path() / "arrays";
  fs::create_directory(dir);
  write_npy(dir / "image.npy", DType::uint8, {5, 2, 3, 3});
  touch(dir / "label.npy");
  EXPECT_THAT(refusal(dir), HasSubstr("label.npy': it is not a .npy file"));
  fs::remove(dir / "label.npy");
  fs::create_symlink("label.npy", dir / "label.npy");  // a link to itself
  EXPECT_THAT(refusal(dir), HasSubstr("label.npy"));
}

TEST_F(OpenDatasetTest, UnrelatedArraysAndManifestsNextToFoldersAreIgnored) {
  fs::rename(folder_.path() / "masks", folder_.path() / "more");
  write_npy(folder_.path() / "embedding.npy", DType::float32, {6, 4});
  for (const char* text : {"{\"settings\": {\"form\": \"else\"}}", "[]", "no JSON", ""}) {
    write_file_atomically(folder_.path() / "manifest.json", std::string_view(text));
    EXPECT_EQ(open_dataset(folder_.path())->size(), 6U) << text;
  }
}

TEST_F(OpenDatasetTest, ArraysNextToFoldersWithoutClassesAreRefused) {
  const fs::path dir = folder_.path() / "arrays";
  fs::create_directories(dir / "notes");
  touch(dir / "image.npy");
  touch(dir / "notes" / "a.txt");
  EXPECT_THAT(refusal(dir), AllOf(HasSubstr("arrays' contains .npy files next to folders"),
                                  HasSubstr("move the folders away"), HasSubstr("notes")));
}

TEST_F(OpenDatasetTest, OpenWithMasksUsesRequestedClassCount) {
  const auto find_classes = [&](const fs::path& path, const std::vector<std::string>& names) {
    return open_dataset_of_masks(path, 5, names)->fields()[1].classes;
  };
  EXPECT_EQ(open_dataset(folder_.path(), 5)->fields()[1].classes, 256);
  EXPECT_EQ(find_classes(folder_.path(), {}), 5);
  EXPECT_EQ(find_classes(folder_.path(), {"a", "b", "c"}), 3);
  const fs::path arrays = folder_.path() / "arrays";
  fs::create_directory(arrays);
  write_npy(arrays / "image.npy", DType::uint8, {5, 2, 3, 3});
  write_npy(arrays / "label.npy", DType::uint8, {5, 2, 3});
  EXPECT_EQ(find_classes(arrays, {}), 5);
}

TEST_F(OpenDatasetTest, OpenWithMasksRefusesFoldersWithoutMasks) {
  const auto open_error = [](const fs::path& path) {
    return thrown_by([&] { open_dataset_of_masks(path, 5, {}); });
  };
  EXPECT_THAT(open_error(folder_.path() / "none"),
              AllOf(HasSubstr("Refused: no folder '"), HasSubstr("make-data")));
  fs::rename(folder_.path() / "masks", folder_.path() / "more");
  EXPECT_EQ(open_dataset(folder_.path())->size(), 6U);
  EXPECT_THAT(open_error(folder_.path()),
              AllOf(HasSubstr("Refused: no folder '"), HasSubstr("/masks'")));
  touch(folder_.path() / "x.npy");
  EXPECT_THAT(open_error(folder_.path()), AllOf(HasSubstr("Refused: '"), HasSubstr("/masks'"),
                                                HasSubstr("move the folders away")));
}

TEST_F(OpenDatasetTest, TextFileOrMissingPathIsRefused) {
  touch(folder_.path() / "file.txt");
  EXPECT_THAT(refusal(folder_.path() / "file.txt"), HasSubstr("is not a data set"));
  EXPECT_THAT(refusal(folder_.path() / "none"), HasSubstr("no file or folder"));
}

}  // namespace
}  // namespace slipstream
