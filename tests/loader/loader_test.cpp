#include "slipstream/loader/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "loader/loader_fixture.h"
#include "loader/sampler.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::ElementsAre;

/// Returns one sample of a slab, field after field.
Bytes copy_sample_bytes(const SlabLayout& layout, const Bytes& slab, std::size_t position) {
  Bytes sample;
  for (const SlabField& field : layout.fields) {
    const auto first = slab.begin() + static_cast<std::ptrdiff_t>(field.offset_bytes +
                                                                  position * field.sample_bytes);
    sample.insert(sample.end(), first, first + static_cast<std::ptrdiff_t>(field.sample_bytes));
  }
  return sample;
}

TEST(DataLoader, BatchesFollowTheSamplerOrder) {
  const DataLoaderOptions options = {{.batch_size = 4, .seed = 3}, {.num_workers = 3}};
  DataLoader loader(std::make_shared<TestSet>(20), no_transforms(), options);
  const Sampler sampler(20, true, 3);
  for (std::uint64_t number = 0; number < 12; ++number) {
    const HostBatch batch = loader.next();
    EXPECT_EQ(batch.number, number);
    EXPECT_EQ(batch.epoch, number / 5);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint64_t sample = sampler.at(batch.epoch, number % 5 * 4 + i);
      const std::byte* pixels = batch.data + i * kPixels;
      for (std::size_t k = 0; k < kPixels; ++k) ASSERT_EQ(pixels[k], sample_pixel(sample, k));
      const std::byte* labels = batch.data + loader.layout().field("label").offset_bytes;
      ASSERT_EQ(labels[i], static_cast<std::byte>(sample % 10));
    }
    loader.release(batch, nullptr);
  }
}

TEST(DataLoader, SameBytesForAnyNumberOfWorkers) {
  const auto run = [](unsigned workers, std::size_t prefetch) {
    const DataLoaderOptions options = {{.batch_size = 3},
                                       {.num_workers = workers, .prefetch_batches = prefetch}};
    DataLoader loader(std::make_shared<TestSet>(20), two_transforms(), options);
    return take(loader, 25);
  };
  const std::vector<Bytes> expected = run(1, 1);
  EXPECT_EQ(run(2, 2), expected);
  EXPECT_EQ(run(8, 5), expected);
}

TEST(DataLoader, LastBatchOfAnEpochIsDroppedUnlessFull) {
  const DataLoaderOptions options = {{.batch_size = 4}, {.num_workers = 2}};
  DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), options);
  EXPECT_EQ(loader.batches_per_epoch(), 2u);
  for (std::uint32_t epoch = 0; epoch < 5; ++epoch) {
    std::set<std::string> seen;
    for (const Bytes& slab : take(loader, 2)) {
      for (std::size_t i = 0; i < 4; ++i) {
        const Bytes sample = copy_sample_bytes(loader.layout(), slab, i);
        seen.emplace(reinterpret_cast<const char*>(sample.data()), sample.size());
      }
    }
    EXPECT_EQ(seen.size(), 8u) << epoch;
  }
  EXPECT_EQ(loader.next().epoch, 5u);
}

TEST(DataLoader, UnshuffledLoadsSamplesInOrder) {
  const DataLoaderOptions options = {{.batch_size = 2, .shuffle = false}, {.num_workers = 2}};
  DataLoader loader(std::make_shared<TestSet>(6), no_transforms(), options);
  const std::size_t offset = loader.layout().field("label").offset_bytes;
  std::vector<int> labels;
  for (const Bytes& slab : take(loader, 6)) {
    for (std::size_t i = 0; i < 2; ++i) labels.push_back(static_cast<int>(slab[offset + i]));
  }
  EXPECT_THAT(labels, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
}

TEST(DataLoader, FirstBatchGivesSameBytesAsIteratingToIt) {
  const auto run = [](std::uint64_t first, std::size_t batches) {
    const DataLoaderOptions options =
        with(&DataLoaderOptions::first_batch, first, {{.batch_size = 3}, {.num_workers = 2}});
    DataLoader loader(std::make_shared<TestSet>(10), two_transforms(), options);
    return take(loader, batches);
  };
  const std::vector<Bytes> walked = run(0, 15);
  for (const std::uint64_t first : {1u, 3u, 8u, 14u}) {
    const auto resumed = run(first, 15 - first);
    EXPECT_TRUE(std::equal(resumed.begin(), resumed.end(),
                           walked.begin() + static_cast<std::ptrdiff_t>(first)));
  }
  const DataLoaderOptions far =
      with(&DataLoaderOptions::first_batch, 3'000'000'001, {{.batch_size = 3}, {}});
  DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), far);
  const HostBatch batch = loader.next();
  EXPECT_EQ(batch.number, 3'000'000'001u);
  EXPECT_EQ(batch.epoch, 1'000'000'000u);
}

TEST(DataLoader, RandomDrawsDoNotDependOnBatchSizeOrWorkers) {
  const auto run = [](std::size_t batch_size, unsigned workers) {
    const DataLoaderOptions options = {{.batch_size = batch_size}, {.num_workers = workers}};
    DataLoader loader(std::make_shared<TestSet>(12), two_transforms(), options);
    std::vector<Bytes> samples;
    for (const Bytes& slab : take(loader, 36 / batch_size)) {
      for (std::size_t i = 0; i < batch_size; ++i) {
        samples.push_back(copy_sample_bytes(loader.layout(), slab, i));
      }
    }
    return samples;
  };
  const std::vector<Bytes> expected = run(1, 1);
  for (const std::size_t batch_size : {2u, 3u, 4u, 12u}) EXPECT_EQ(run(batch_size, 4), expected);
}

TEST(DataLoader, RandomDrawsDependOnSeedEpochSampleAndOperation) {
  const DataLoaderOptions options = {{.batch_size = 1, .seed = 11, .shuffle = false},
                                     {.num_workers = 2}};
  DataLoader loader(std::make_shared<TestSet>(3), two_transforms(), options);
  for (std::uint64_t number = 0; number < 9; ++number) {
    const HostBatch batch = loader.next();
    std::uint32_t by = 0;
    for (const std::uint32_t operation : {0u, 1u}) {
      by += RandomStream(
                {.seed = 11, .epoch = batch.epoch, .sample = number % 3, .operation = operation})
                .below(256);
    }
    const auto expected = std::to_integer<std::uint32_t>(sample_pixel(number % 3, 0)) + by;
    EXPECT_EQ(batch.data[0], static_cast<std::byte>(expected));
    loader.release(batch, nullptr);
  }
}

TEST(DataLoader, CountersReportCallsBytesAndTimesPerStep) {
  const DataLoaderOptions options =
      with(&DataLoaderOptions::held_batches, 1,
           {{.batch_size = 4}, {.num_workers = 2, .prefetch_batches = 1}});
  const auto dataset = std::make_shared<TestSet>(8);
  DataLoader loader(dataset, two_transforms(), options);
  take(loader, 4);
  const auto counters = loader.counters();
  std::vector<std::string> names;
  for (const StepCounter& counter : counters) names.push_back(counter.name);
  EXPECT_THAT(names, ElementsAre("read", "decode", "one", "two", "collate"));
  const std::vector<std::size_t> bytes = {16, kPixels, kPixels, kPixels, kPixels + 1};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    EXPECT_GE(counters[i].calls, 16u);
    EXPECT_GE(counters[i].bytes, 16 * bytes[i]);
    EXPECT_EQ(counters[i].bytes % bytes[i], 0u);
    EXPECT_GT(counters[i].wall_s, 0);
    EXPECT_GT(counters[i].cpu_s, 0);
  }
  EXPECT_GE(loader.blocked_s(), 0);
}

TEST(SlabLayout, FieldsAreAlignedAndNarrowed) {
  const SlabLayout layout =
      DataLoader::plan_layout(TestSet(8), no_transforms(), {{.batch_size = 6}, {}});
  EXPECT_EQ(layout.batch_size, 6u);
  const SlabField& image = layout.field("image");
  EXPECT_EQ(image.dtype, DType::uint8);
  EXPECT_EQ(image.offset_bytes, 0u);
  EXPECT_EQ(image.sample_bytes, kPixels);
  const SlabField& label = layout.field("label");
  EXPECT_EQ(label.spec.dtype, DType::int64);
  EXPECT_EQ(label.dtype, DType::uint8);
  EXPECT_EQ(label.offset_bytes, 512u);
  EXPECT_EQ(label.sample_bytes, 1u);
  EXPECT_EQ(layout.bytes, 768u);
}

TEST(SlabLayout, LabelsOfAtMost256ClassesAreNarrowed) {
  TestSet dataset(8);
  for (const auto& [classes, dtype] : {std::pair<std::int64_t, DType>{0, DType::int64},
                                       {1, DType::uint8},
                                       {256, DType::uint8},
                                       {257, DType::int64}}) {
    dataset.classes = classes;
    EXPECT_EQ(DataLoader::plan_layout(dataset, no_transforms(), {{.batch_size = 1}, {}})
                  .field("label")
                  .dtype,
              dtype);
  }
}

TEST(SlabLayout, UnknownFieldErrorListsKnownFields) {
  const SlabLayout layout =
      DataLoader::plan_layout(TestSet(8), no_transforms(), {{.batch_size = 1}, {}});
  try {
    layout.field("lable");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown field 'lable'; did you mean 'label'? known: image, label");
  }
}

TEST(SlabLayout, DeviceTransformsWithoutAnyTransformAreRefused) {
  DataLoaderOptions options{{.batch_size = 6}, {}};
  options.on_device = 1;
  EXPECT_EQ(thrown_by([&] { DataLoader::plan_layout(TestSet(8), no_transforms(), options); }),
            "Refused: there is no transform to run on the device");
}

TEST(DataLoader, LabelsOfManyClassesKeepInt64) {
  const auto dataset = std::make_shared<TestSet>(400);
  dataset->classes = 1000;
  dataset->change = [](std::size_t index, Sample& sample) {
    *sample.fields[1].array.span().as<std::int64_t>() = static_cast<std::int64_t>(index) + 500;
  };
  DataLoader loader(dataset, no_transforms(), {{.batch_size = 2, .shuffle = false}, {}});
  const HostBatch batch = loader.next();
  std::array<std::int64_t, 2> labels{};
  std::memcpy(labels.data(), batch.data + loader.layout().field("label").offset_bytes, 16);
  EXPECT_THAT(labels, ElementsAre(500, 501));
}

/// Counts allocated blocks and bytes.
class CountedMemory final : public std::pmr::memory_resource {
 public:
  std::size_t blocks = 0;
  std::size_t bytes = 0;
  std::size_t alignment = 0;

 private:
  void* do_allocate(std::size_t size, std::size_t align) override {
    ++blocks;
    bytes += size;
    alignment = align;
    return std::pmr::new_delete_resource()->allocate(size, align);
  }
  void do_deallocate(void* block, std::size_t size, std::size_t align) override {
    --blocks;
    bytes -= size;
    std::pmr::new_delete_resource()->deallocate(block, size, align);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

TEST(DataLoader, SlabsAreAllocatedFromAndReturnedToGivenMemory) {
  CountedMemory memory;
  {
    const DataLoaderOptions options =
        with(&DataLoaderOptions::memory, &memory,
             {{.batch_size = 4}, {.num_workers = 2, .prefetch_batches = 3}});
    DataLoader loader(std::make_shared<TestSet>(8), no_transforms(), options);
    EXPECT_EQ(loader.slabs(), 5u);
    take(loader, 50);
    EXPECT_EQ(memory.blocks, 5u);
    EXPECT_EQ(memory.bytes, 5 * loader.layout().bytes);
    EXPECT_EQ(memory.alignment, 256u);
  }
  EXPECT_EQ(memory.blocks, 0u);
  EXPECT_EQ(memory.bytes, 0u);
}

TEST(DataLoader, KeptBatchMemoryOutlivesTheLoader) {
  CountedMemory memory;
  {
    std::shared_ptr<const std::byte> kept;
    std::vector<std::byte> bytes;
    {
      DataLoaderOptions options = {{.batch_size = 4}, {}};
      options.memory = &memory;
      DataLoader loader(std::make_shared<TestSet>(8), no_transforms(), options);
      const HostBatch batch = loader.next();
      kept = loader.memory(batch);
      EXPECT_EQ(kept.get(), batch.data);
      bytes.assign(batch.data, batch.data + loader.layout().bytes);
    }
    EXPECT_EQ(memory.blocks, 1u);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), kept.get()));
  }
  EXPECT_EQ(memory.blocks, 0u);
}

}  // namespace
}  // namespace slipstream
