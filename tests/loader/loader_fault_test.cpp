#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "loader/counting_memory.h"
#include "loader/loader_fixture.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/color.h"
#include "support/made_set.h"
#include "support/no_threads.h"
#include "support/own_op.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

const DataLoaderOptions kInOrder = {{.batch_size = 4, .shuffle = false}, {.num_workers = 4}};

TEST(LoaderFault, BatchesBeforeTheFailingOneAreReturned) {
  for (const unsigned workers : {1u, 2u, 8u}) {
    const auto dataset = std::make_shared<TestSet>(20);
    dataset->on_read = [](std::size_t index) {
      if (index == 13) throw Error("no such file");
    };
    DataLoaderOptions options = kInOrder;
    options.num_workers = workers;
    DataLoader loader(dataset, no_transforms(), options);
    for (std::uint64_t number = 0; number < 3; ++number) {
      const HostBatch batch = loader.next();
      EXPECT_EQ(batch.number, number);
      loader.release(batch, nullptr);
    }
    const std::string expected =
        "step 'read' of sample 13 (images/13.jpg, epoch 0, batch 3): no such file";
    EXPECT_EQ(message_of_next(loader), expected);
    EXPECT_EQ(message_of_next(loader), expected);
    EXPECT_TRUE(loader.ready());
  }
}

TEST(LoaderFault, ErrorNamesTheFailingStep) {
  const auto dataset = std::make_shared<TestSet>(8);
  dataset->on_decode = [](std::size_t index) {
    if (index == 1) throw Error("corrupt");
  };
  DataLoader decode(dataset, no_transforms(), kInOrder);
  EXPECT_EQ(message_of_next(decode),
            "step 'decode' of sample 1 (images/1.jpg, epoch 0, batch 0): corrupt");

  const Brighten failing = {[] { throw std::bad_alloc(); }};
  DataLoader transform(std::make_shared<TestSet>(8), {{"one", Brighten{}}, {"two", failing}},
                       kInOrder);
  EXPECT_THAT(message_of_next(transform), HasSubstr("step 'two' of sample 0"));
  EXPECT_THAT(message_of_next(transform), HasSubstr("): out of memory; use a smaller batch size"));

  const Brighten strange = {[] { throw 5; }};
  DataLoader thrown(std::make_shared<TestSet>(8), {{"one", strange}}, kInOrder);
  EXPECT_THAT(message_of_next(thrown), HasSubstr("unknown exception"));
}

TEST(LoaderFault, ConvertColorOffsetAfterDivideIsRefused) {
  HostArray pixels;
  const MutableArray levels = pixels.reset(DType::uint8, {2, 1, 1, 3});
  std::fill_n(levels.data, levels.bytes(), std::byte{1});
  const auto images = tensor_dataset({{"image", FieldKind::image, std::move(pixels), 0}});
  const std::vector<NamedOp> wrong = {{"small", Divide{}}, {"ycc", ConvertColor{}}};
  EXPECT_THAT(
      thrown_by([&] {
        DataLoader::plan_layout(*images, wrong, {{.batch_size = 2}, {}});
      }),
      HasSubstr("'ycc' (convert_color): its offset is for levels of 0 to 255, but 'small'"));
  EXPECT_NO_THROW(DataLoader::plan_layout(*images, {wrong[1], wrong[0]}, {{.batch_size = 2}, {}}));
}

TEST(LoaderFault, TransformWithoutMatchingFieldIsRefused) {
  HostArray values;
  values.reset(DType::int64, {4});
  const auto labels = tensor_dataset({{"label", FieldKind::label, std::move(values), 0}});
  DataLoaderOptions options{{.batch_size = 2}, {}};
  for (options.on_device = 0; options.on_device < 2; ++options.on_device)
    EXPECT_THAT(
        thrown_by([&] {
          DataLoader::plan_layout(*labels, {{"small", Resize{{4, 4}}}}, options);
        }),
        HasSubstr("transform 'small': the data set has no field that resize applies to: its "
                  "fields are 'label' (label)"));
}

TEST(LoaderFault, TooLittleMemoryForSlabsGivesAdvice) {
  CountingMemory none(0);
  DataLoaderOptions options = kInOrder;
  options.memory = &none;
  EXPECT_THAT(
      thrown_by([&] { DataLoader(std::make_shared<TestSet>(8), no_transforms(), options); }),
      testing::ContainsRegex("out of memory for prefetched batches: [0-9]+ of [0-9.]+ (KiB|bytes) "
                             "each; use a smaller"));
}

TEST(LoaderFault, FailureToStartThreadsThrows) {
  for (const unsigned reads : {0u, 2u}) {
    DataLoaderOptions options = kInOrder;
    options.read_ahead.reads = reads;
    const NoThreads none;
    EXPECT_THAT(
        thrown_by([&] { DataLoader(std::make_shared<TestSet>(8), no_transforms(), options); }),
        HasSubstr("Error: cannot start a thread: "));
  }
}

TEST(LoaderFault, FirstErrorInSampleOrderIsRethrownEvenIfItOccursLater) {
  const auto dataset = std::make_shared<TestSet>(16);
  Gate later_failed;
  dataset->on_read = [&](std::size_t index) {
    if (index == 5) {
      later_failed.wait();
      throw Error("first in order");
    }
    if (index == 7 || index == 8) {
      later_failed.open();
      throw Error("first in time");
    }
  };
  DataLoader loader(dataset, no_transforms(), kInOrder);
  loader.release(loader.next(), nullptr);
  EXPECT_THAT(message_of_next(loader), HasSubstr("sample 5 (images/5.jpg, epoch 0, batch 1)"));
}

TEST(LoaderFault, LaterErrorDoesNotReplaceTheFirst) {
  const auto dataset = std::make_shared<TestSet>(16);
  Gate later_began;
  Gate earlier_fails;
  dataset->on_read = [&](std::size_t index) {
    if (index == 5) {
      later_began.wait();
      earlier_fails.open();
      throw Error("first");
    }
    if (index == 7) {
      later_began.open();
      earlier_fails.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw Error("second");
    }
  };
  DataLoader loader(dataset, no_transforms(), kInOrder);
  loader.release(loader.next(), nullptr);
  EXPECT_THAT(message_of_next(loader), HasSubstr("sample 5 "));
}

TEST(LoaderFault, SameErrorForAnyNumberOfWorkers) {
  for (const unsigned workers : {1u, 2u, 8u}) {
    for (int round = 0; round < 10; ++round) {
      const auto dataset = std::make_shared<TestSet>(16);
      dataset->on_read = [](std::size_t index) {
        if (index >= 5) throw Error("bad");
      };
      DataLoaderOptions options = kInOrder;
      options.num_workers = workers;
      DataLoader loader(dataset, no_transforms(), options);
      loader.release(loader.next(), nullptr);
      EXPECT_THAT(message_of_next(loader), HasSubstr("sample 5 "));
    }
  }
}

TEST(LoaderFault, ErrorReportsEpochAndBatchOfALaterEpoch) {
  std::atomic<int> reads{0};
  const auto dataset = std::make_shared<TestSet>(4);
  dataset->on_read = [&](std::size_t) {
    if (++reads == 10) throw Error("worn out");
  };
  DataLoaderOptions options = kInOrder;
  options.num_workers = 1;
  options.batch_size = 2;
  DataLoader loader(dataset, no_transforms(), options);
  take(loader, 4);
  EXPECT_EQ(message_of_next(loader),
            "step 'read' of sample 1 (images/1.jpg, epoch 2, batch 4): worn out");
}

TEST(LoaderFault, DestructionWithAnUnreadErrorDoesNotHang) {
  for (int i = 0; i < 50; ++i) {
    const auto dataset = std::make_shared<TestSet>(16);
    dataset->on_read = [](std::size_t index) {
      if (index == 3) throw Error("bad");
    };
    const DataLoader loader(dataset, no_transforms(), kInOrder);
  }
}

TEST(LoaderFault, LabelOutsideTheClassesIsReported) {
  for (const std::int64_t wrong : {std::int64_t{10}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const auto dataset = std::make_shared<TestSet>(8);
    dataset->change = [&](std::size_t index, Sample& sample) {
      if (index == 2) *sample.fields[1].array.span().as<std::int64_t>() = wrong;
    };
    DataLoader loader(dataset, no_transforms(), kInOrder);
    EXPECT_EQ(message_of_next(loader),
              "step 'collate' of sample 2 (images/2.jpg, epoch 0, batch 0): field 'label' holds "
              "class " +
                  std::to_string(wrong) + ", but there are 10 classes, 0 to 9");
  }
}

TEST(LoaderFault, EveryPixelOfAMaskIsChecked) {
  const auto dataset =
      made_set(4, {{"mask", FieldKind::mask, DType::uint8, {33, 17}, 5}},
               [](std::size_t index, Sample& out) {
                 const MutableArray mask = out.fields[0].array.reset(DType::uint8, {33, 17});
                 std::fill_n(mask.data, mask.bytes(), std::byte{4});
                 if (index == 1) mask.data[32 * 17 + 16] = std::byte{200};
               });
  DataLoader loader(dataset, no_transforms(), kInOrder);
  EXPECT_THAT(message_of_next(loader), HasSubstr("holds class 200, but there are 5 classes"));
  dataset->declared[0].classes = 201;
  DataLoader enough(dataset, no_transforms(), kInOrder);
  EXPECT_NO_THROW(enough.next());
  dataset->declared[0].classes = 0;
  DataLoader unchecked(dataset, no_transforms(), kInOrder);
  EXPECT_NO_THROW(unchecked.next());
}

TEST(LoaderFault, SampleOfAnotherShapeIsReported) {
  const auto dataset = std::make_shared<TestSet>(8);
  dataset->change = [](std::size_t index, Sample& sample) {
    if (index == 3) sample.fields[1].array.reset(DType::int32, {2});
  };
  DataLoader loader(dataset, no_transforms(), kInOrder);
  EXPECT_THAT(message_of_next(loader), HasSubstr("sample 3 (images/3.jpg"));
  EXPECT_THAT(message_of_next(loader), HasSubstr("field 'label' is int32 of shape 2, not int64"));
}

TEST(LoaderFault, SampleWithAMissingFieldIsReported) {
  const auto dataset = std::make_shared<TestSet>(8);
  dataset->change = [](std::size_t, Sample& sample) { sample.fields.pop_back(); };
  DataLoader loader(dataset, no_transforms(), kInOrder);
  EXPECT_THAT(message_of_next(loader), HasSubstr("returned 1 field, but it declares 2"));
}

TEST(LoaderRefuses, ABatchLargerThanTheDataset) {
  EXPECT_THAT(refusal(std::make_shared<TestSet>(3), no_transforms(), kInOrder),
              HasSubstr("batch size 4 is larger than the data set: give at most 3"));
  EXPECT_THAT(refusal(std::make_shared<TestSet>(0), no_transforms(), kInOrder),
              HasSubstr("the data set is empty"));
}

/// Gives images of any size the size of TestSet's images.
struct ToSide : OwnOp {
  static constexpr std::string_view kName = "to_side";
  void validate() const {
    if (!valid) throw Refused("side 0: give at least 1");
  }
  FieldSpec output(FieldSpec in) const {
    in.shape = {kSide, kSide, 3};
    return in;
  }
  void apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    std::memcpy(out.data, in.data, out.bytes());
  }
  bool valid = true;
};

TEST(LoaderRefuses, FieldsWithoutFixedShape) {
  const auto dataset = std::make_shared<TestSet>(8);
  dataset->image_side = -1;
  const std::string message = refusal(dataset, two_transforms(), kInOrder);
  EXPECT_THAT(message, HasSubstr("field 'image' has shape"));
  EXPECT_THAT(message, HasSubstr("add resize"));
  EXPECT_EQ(refusal(dataset, {{"to side", ToSide{}}}, kInOrder), "");
}

TEST(LoaderRefuses, DuplicateStepNames) {
  const auto dataset = std::make_shared<TestSet>(8);
  for (const std::string name : {"read", "decode", "collate", "one"}) {
    EXPECT_THAT(refusal(dataset, {{"one", Brighten{}}, {name, Brighten{}}}, kInOrder),
                HasSubstr("two steps are called '" + name + "'"));
  }
  EXPECT_THAT(refusal(dataset, {{"", Brighten{}}}, kInOrder), HasSubstr("transform 0 has no name"));
}

TEST(LoaderRefuses, MoreThan64Transforms) {
  const auto dataset = std::make_shared<TestSet>(8);
  std::vector<NamedOp> transforms;
  for (int i = 0; i < 64; ++i) transforms.push_back({"step" + std::to_string(i), Brighten{}});
  EXPECT_EQ(refusal(dataset, transforms, kInOrder), "");
  transforms.push_back({"last", Brighten{}});
  EXPECT_THAT(refusal(dataset, transforms, kInOrder),
              HasSubstr("65 transforms: there can be at most 64"));
}

TEST(LoaderRefuses, ClassesThatAreNotIntegers) {
  const auto dataset =
      made_set(8, {{"score", FieldKind::label, DType::float32, {}, 3}},
               [](std::size_t, Sample& out) { out.fields[0].array.reset(DType::float32, {}); });
  EXPECT_THAT(refusal(dataset, no_transforms(), kInOrder),
              HasSubstr("field 'score' declares 3 classes of float32"));
}

TEST(LoaderRefuses, AllProblemsAtOnce) {
  DataLoaderOptions options{{.batch_size = 9}, {.num_workers = 0, .prefetch_batches = 0}};
  options.held_batches = 0;
  options.cut = HostCut{"decoed", 0};
  const std::string message =
      refusal(std::make_shared<TestSet>(8), {{"to side", ToSide{{}, false}}}, options);
  for (const char* problem :
       {"batch size 9", "num_workers 0", "prefetch_batches 0", "held_batches 0",
        "at least 1 cached item", "transform 'to side': side 0: give at least 1",
        "unknown step to cut after 'decoed'; did you mean 'decode'? known: read, decode, to side, "
        "collate"}) {
    EXPECT_THAT(message, HasSubstr(problem));
  }
}

TEST(LoaderRefuses, FirstBatchAfterTheLastEpoch) {
  DataLoaderOptions options = kInOrder;
  options.first_batch = std::uint64_t{2} << 32;
  EXPECT_THAT(refusal(std::make_shared<TestSet>(8), no_transforms(), options),
              HasSubstr("is after the last epoch"));
}

}  // namespace
}  // namespace slipstream
