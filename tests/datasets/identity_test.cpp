#include <gtest/gtest.h>

#include <functional>

#include "datasets/with_cost.h"
#include "slipstream/datasets/datasets.h"
#include "support/array_values.h"
#include "support/folder_fixture.h"
#include "support/tar_writer.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using DatasetPtr = std::shared_ptr<const Dataset>;

class IdentityTest : public FolderTest {
 protected:
  static void set_older_mtime(const fs::path& path) {
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  }
  static void expect_same(const std::function<DatasetPtr()>& make) {
    EXPECT_EQ(make()->identity(), make()->identity());
  }
  static void expect_other(const DatasetPtr& a, const DatasetPtr& b) {
    EXPECT_NE(a->identity(), b->identity());
  }
};

DatasetPtr numbers(std::int32_t add = 0, const char* name = "x") {
  std::vector<ArrayField> fields;
  fields.push_back({name, FieldKind::other, counting<std::int32_t>(DType::int32, {4, 2})});
  fields.back().values.span().as<std::int32_t>()[7] += add;
  return tensor_dataset(std::move(fields));
}

TEST_F(IdentityTest, ArraysDifferByFieldsAndValues) {
  expect_same([] { return numbers(); });
  expect_other(numbers(), numbers(1));
  expect_other(numbers(), numbers(0, "y"));
}

TEST_F(IdentityTest, FoldersDifferByFileNames) {
  const auto masks = [&] { return segmentation_folder(folder_.path(), 2); };
  write("images/1.jpg");
  write("masks/1.png");
  expect_same(masks);
  const DatasetPtr before = masks();
  fs::rename(folder_.path() / "images/1.jpg", folder_.path() / "images/2.jpg");
  fs::rename(folder_.path() / "masks/1.png", folder_.path() / "masks/2.png");
  expect_other(before, masks());
}

TEST_F(IdentityTest, LabeledDatasetsDifferByLabels) {
  write("a/1.jpg");
  write("b/1.jpg");
  const auto classes = [&](std::vector<std::string> names) -> DatasetPtr {
    return image_folder(folder_.path(), {.classes = std::move(names)});
  };
  expect_same([&] { return classes({}); });
  expect_other(classes({"a", "b"}), classes({"x", "a", "b"}));

  const auto list = write("list.csv", "image,label\n1.jpg,0\n2.jpg,1\n");
  expect_same([&] { return listed(list); });
  const DatasetPtr before = listed(list);
  write("list.csv", "image,label\n1.jpg,1\n2.jpg,1\n");
  expect_other(before, listed(list));
}

TEST_F(IdentityTest, ListsWithMasksDifferByMaskNames) {
  const ListOptions options = {.mask = "mask"};
  const auto list = write("list.csv", "image,mask\n1.jpg,1.png\n");
  expect_same([&] { return listed(list, options); });
  const DatasetPtr before = listed(list, options);
  write("list.csv", "image,mask\n1.jpg,2.png\n");
  expect_other(before, listed(list, options));
}

TEST_F(IdentityTest, ShardsDifferByModificationTimeAndPath) {
  const fs::path shard = folder_.path() / "a.tar";
  TarWriter tar;
  tar.add("1.jpg", "x");
  tar.write(shard);
  const auto make = [&] { return tar_shards({shard}); };
  expect_same(make);
  const DatasetPtr before = make();
  set_older_mtime(shard);
  expect_other(before, make());
  fs::copy_file(shard, folder_.path() / "b.tar");
  expect_other(make(), tar_shards({folder_.path() / "b.tar"}));
}

TEST_F(IdentityTest, NpyMapsDifferByModificationTime) {
  std::string bytes("\x93NUMPY\1\0\x40\0", 10);
  bytes += "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";
  bytes.resize(10 + 64, ' ');
  const fs::path file = write("x.npy", bytes + "ab");
  const auto make = [&] { return npy_maps({{"x", FieldKind::other, file}}); };
  expect_same(make);
  const DatasetPtr before = make();
  set_older_mtime(file);
  expect_other(before, make());
}

TEST_F(IdentityTest, SyntheticDatasetsDifferByOptions) {
  constexpr SyntheticOptions kOptions;
  expect_same([&] { return synthetic_segmentation(kOptions); });
  expect_other(synthetic_segmentation(kOptions), synthetic_classification(kOptions));
  for (const SyntheticOptions& other :
       {SyntheticOptions{.seed = 2}, SyntheticOptions{.samples = 5}, SyntheticOptions{.classes = 5},
        SyntheticOptions{.size = 5}}) {
    expect_other(synthetic_segmentation(kOptions), synthetic_segmentation(other));
  }
}

TEST_F(IdentityTest, WrappersDifferByInnerDatasetAndArguments) {
  expect_same([] { return subset(numbers(), {1, 2}); });
  expect_other(subset(numbers(), {1, 2}), subset(numbers(), {2, 1}));
  expect_other(subset(numbers(), {1, 2}), subset(numbers(1), {1, 2}));
  expect_same([] { return concat_dataset({numbers(), numbers(1)}); });
  expect_other(concat_dataset({numbers(), numbers(1)}), concat_dataset({numbers(1), numbers()}));

  const SyntheticCosts read_cost = {.read = {.sleep_s = 1e-6}};
  const SyntheticCosts decode_cost = {.decode = {.sleep_s = 1e-6}};
  expect_same([&] { return with_cost(numbers(), read_cost); });
  expect_other(with_cost(numbers(), read_cost), with_cost(numbers(1), read_cost));
  expect_other(with_cost(numbers(), read_cost), with_cost(numbers(), decode_cost));
}

}  // namespace
}  // namespace slipstream
