#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "core/patience.h"
#include "datasets/read_chunk.h"
#include "loader/loader_fixture.h"

namespace slipstream {
namespace {

using test::eventually;
using testing::HasSubstr;

constexpr std::size_t kReadAheadSamples = 23;
constexpr std::size_t kReadAheadBatch = 4;
constexpr std::uint64_t kReadAheadBatches = 17;  // more than three epochs of five

/// Sleeps for up to 0.25 ms depending on `index`, for a third of the calls not at all.
void sleep_briefly(std::size_t index) {
  const std::size_t mixed = (index + 1) * 0x9E3779B97F4A7C15u >> 40;
  if (mixed % 3 > 0) std::this_thread::sleep_for(std::chrono::microseconds(mixed % 250));
}

std::shared_ptr<TestSet> slow_set() {
  const auto dataset = std::make_shared<TestSet>(kReadAheadSamples);
  dataset->on_read = [](std::size_t index) { sleep_briefly(index); };
  dataset->on_decode = [](std::size_t index) { sleep_briefly(7 * index); };
  return dataset;
}

template <typename Check>
void for_all_threads(const Check& check) {
  for (const unsigned workers : {1u, 2u, 7u}) {
    for (const unsigned reads : {1u, 2u, 5u, 16u}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(reads) + " reads");
      DataLoaderOptions options = {{.batch_size = kReadAheadBatch}, {.num_workers = workers}};
      options.read_ahead.reads = reads;
      check(options);
    }
  }
}

TEST(ReadAhead, SameBytesForAnyNumberOfReadsAndWorkers) {
  DataLoader alone(std::make_shared<TestSet>(kReadAheadSamples), two_transforms(),
                   {{.batch_size = kReadAheadBatch}, {}});
  const std::vector<Bytes> expected = take(alone, kReadAheadBatches);
  for_all_threads([&](DataLoaderOptions options) {
    DataLoader loader(slow_set(), two_transforms(), options);
    EXPECT_EQ(take(loader, kReadAheadBatches), expected);

    options.first_batch = 7;
    DataLoader later(slow_set(), two_transforms(), options);
    EXPECT_EQ(take(later, kReadAheadBatches - 7),
              std::vector<Bytes>(expected.begin() + 7, expected.end()));
  });
}

TEST(ReadAhead, ExactlyTheGivenNumberOfReadsIsInFlight) {
  const auto dataset = std::make_shared<TestSet>(64);
  Gate gate;
  dataset->on_read = [&](std::size_t) { gate.wait(); };
  DataLoader loader(dataset, no_transforms(),
                    {{.batch_size = kReadAheadBatch}, {.read_ahead = {.reads = 9}}});
  dataset->reads.wait_for(9);
  give_time();
  EXPECT_EQ(dataset->reads.count(), 9u);
  gate.open();
  take(loader, 20);
}

TEST(ReadAhead, SlowSampleDoesNotDelayLaterReads) {
  const auto dataset = std::make_shared<TestSet>(64);
  Gate gate;
  dataset->on_read = [&](std::size_t index) {
    if (index == 0) gate.wait();
  };
  DataLoader loader(
      dataset, no_transforms(),
      {{.batch_size = kReadAheadBatch, .shuffle = false}, {.read_ahead = {.reads = 4}}});
  dataset->reads.wait_for(8);
  give_time();
  EXPECT_EQ(dataset->reads.count(), 8u);
  gate.open();
}

TEST(ReadAhead, AllReadersResumeAfterASlowSample) {
  const auto dataset = std::make_shared<TestSet>(64);
  Gate first;
  Gate later;
  WaitableCounter decoded;
  dataset->on_read = [&](std::size_t index) {
    if (index == 0) first.wait();
    if (index >= 8) later.wait();
  };
  dataset->on_decode = [&](std::size_t) { decoded.raise(); };
  DataLoader loader(dataset, no_transforms(),
                    {{.batch_size = kReadAheadBatch, .shuffle = false},
                     {.num_workers = 2, .read_ahead = {.reads = 4}}});
  // All but sample 0 of the first eight. Their slots are free, but cannot be used before that of
  // sample 0.
  decoded.wait_for(7);
  give_time();
  first.open();
  dataset->reads.wait_for(8 + 4);
  later.open();
}

TEST(ReadAhead, ReadsInOrderUpToTwiceItsReadsAhead) {
  std::mutex mutex;
  std::vector<std::size_t> begun;
  const auto dataset = std::make_shared<TestSet>(64);
  dataset->on_read = [&](std::size_t index) {
    const std::lock_guard lock(mutex);
    begun.push_back(index);
  };
  const DataLoader loader(dataset, no_transforms(),
                          {{.batch_size = kReadAheadBatch, .shuffle = false},
                           {.num_workers = 3, .read_ahead = {.reads = 1}}});
  const std::size_t farthest = loader.slabs() * kReadAheadBatch + 2;
  dataset->reads.wait_for(farthest);
  give_time();
  const std::lock_guard lock(mutex);
  ASSERT_EQ(begun.size(), farthest);
  for (std::size_t i = 0; i < begun.size(); ++i) EXPECT_EQ(begun[i], i);
}

TEST(ReadAhead, EveryReadIsCountedOnceWithBytesAndTime) {
  const auto dataset = std::make_shared<TestSet>(64);
  dataset->on_read = [](std::size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  const DataLoader loader(
      dataset, no_transforms(),
      {{.batch_size = kReadAheadBatch}, {.num_workers = 2, .read_ahead = {.reads = 3}}});
  const std::size_t reads = loader.slabs() * kReadAheadBatch + 6;
  eventually("all reads are counted", [&] { return loader.counters()[0].calls >= reads; });
  give_time();
  const StepCounter read = loader.counters()[0];
  EXPECT_EQ(read.name, "read");
  EXPECT_EQ(read.calls, reads);
  EXPECT_EQ(read.bytes, reads * 16);
  EXPECT_GE(read.wall_s, 0.001 * static_cast<double>(reads));
  EXPECT_LT(read.cpu_s, read.wall_s);
}

TEST(ReadAhead, ReadErrorIsRethrownAfterEarlierBatches) {
  for_all_threads([](DataLoaderOptions options) {
    options.shuffle = false;
    const auto dataset = slow_set();
    dataset->on_read = [](std::size_t index) {
      sleep_briefly(index);
      if (index >= 13) throw Error("no such file");
    };
    DataLoader loader(dataset, no_transforms(), options);
    take(loader, 3);
    const std::string expected =
        "step 'read' of sample 13 (images/13.jpg, epoch 0, batch 3): no such file";
    EXPECT_EQ(message_of_next(loader), expected);
    EXPECT_EQ(message_of_next(loader), expected);
  });
}

TEST(ReadAhead, DecodeErrorIsSameAsWithoutReadAhead) {
  for_all_threads([](DataLoaderOptions options) {
    options.shuffle = false;
    const auto dataset = slow_set();
    dataset->on_decode = [](std::size_t index) {
      sleep_briefly(index);
      if (index == 5) throw Error("corrupt");
    };
    DataLoader loader(dataset, no_transforms(), options);
    take(loader, 1);
    EXPECT_EQ(message_of_next(loader),
              "step 'decode' of sample 5 (images/5.jpg, epoch 0, batch 1): corrupt");
  });
}

TEST(ReadAhead, NonStandardExceptionIsReportedAsUnknown) {
  const auto dataset = std::make_shared<TestSet>(8);
  dataset->on_read = [](std::size_t) { throw 5; };
  DataLoader loader(dataset, no_transforms(),
                    {{.batch_size = kReadAheadBatch}, {.read_ahead = {.reads = 2}}});
  EXPECT_THAT(message_of_next(loader), HasSubstr("unknown exception"));
}

TEST(ReadAhead, BadSamplesAreSkippedAsWithoutReadAhead) {
  const auto bad_set = [] {
    const auto dataset = slow_set();
    dataset->on_read = [](std::size_t index) {
      sleep_briefly(index);
      if (index == 2 || index == 3 || index == 20) throw Error("gone");
    };
    dataset->on_decode = [](std::size_t index) {
      if (index == 9) throw Error("corrupt");
    };
    return dataset;
  };
  DataLoaderOptions without = {{.batch_size = kReadAheadBatch, .on_bad_sample = OnBadSample::skip},
                               {}};
  DataLoader alone(bad_set(), two_transforms(), without);
  const std::vector<Bytes> expected = take(alone, kReadAheadBatches);
  for_all_threads([&](DataLoaderOptions options) {
    options.on_bad_sample = OnBadSample::skip;
    DataLoader loader(bad_set(), two_transforms(), options);
    EXPECT_EQ(take(loader, kReadAheadBatches), expected);
    std::vector<std::uint64_t> skipped;
    for (const SkippedSample& each : loader.skipped().samples) skipped.push_back(each.sample);
    EXPECT_THAT(skipped, testing::ElementsAre(2, 3, 9, 20));
  });
}

TEST(ReadAhead, KnownBadSampleIsNotReadAgain) {
  std::map<std::size_t, int> reads;
  const auto dataset = std::make_shared<TestSet>(kReadAheadSamples);
  std::mutex mutex;
  dataset->on_read = [&](std::size_t index) {
    const std::lock_guard lock(mutex);
    ++reads[index];
    if (index == 2) throw Error("gone");
  };
  {
    DataLoaderOptions options = {
        {.batch_size = kReadAheadBatch, .on_bad_sample = OnBadSample::skip}, {}};
    options.shuffle = false;
    options.read_ahead.reads = 1;
    DataLoader loader(dataset, no_transforms(), options);
    take(loader, kReadAheadBatches);
  }
  EXPECT_EQ(reads[2], 1);
  EXPECT_GE(reads[1], 3);
}

TEST(ReadAhead, SlotWithOnlyBadSamplesGivesSameBatches) {
  DataLoaderOptions options = {{.batch_size = kReadAheadBatch, .on_bad_sample = OnBadSample::skip},
                               {}};
  options.shuffle = false;
  const auto dataset = std::make_shared<TestSet>(kReadAheadSamples);
  dataset->on_read = [](std::size_t index) {
    if (index % 2 == 0) throw Error("gone");
  };
  DataLoader alone(dataset, no_transforms(), options);
  options.read_ahead.reads = 1;  // two slots, one of them for even samples
  DataLoader loader(dataset, no_transforms(), options);
  EXPECT_EQ(take(loader, kReadAheadBatches), take(alone, kReadAheadBatches));
}

TEST(ReadAhead, CutsGiveSameBatchesAsWithoutReadAhead) {
  for (const char* after : {"read", "decode", "collate"}) {
    DataLoaderOptions options =
        with(&DataLoaderOptions::cut, HostCut{after, 8}, {{.batch_size = kReadAheadBatch}, {}});
    DataLoader alone(std::make_shared<TestSet>(kReadAheadSamples), two_transforms(), options);
    options.read_ahead.reads = 3;
    DataLoader loader(std::make_shared<TestSet>(kReadAheadSamples), two_transforms(), options);
    EXPECT_EQ(take(loader, 10), take(alone, 10)) << after;
  }
}

TEST(ReadAhead, DestructionAfterAnyNumberOfBatchesDoesNotHang) {
  for_all_threads([](const DataLoaderOptions& options) {
    for (std::size_t i = 0; i < 10; ++i) {
      const auto dataset = slow_set();
      DataLoader loader(dataset, two_transforms(), options);
      take(loader, i % 5);
      sleep_briefly(i);
    }
  });
}

TEST(ReadAhead, DestructionWithAnUnreadErrorDoesNotHang) {
  for_all_threads([](const DataLoaderOptions& options) {
    for (std::size_t i = 0; i < 10; ++i) {
      const auto dataset = slow_set();
      dataset->on_read = [](std::size_t index) {
        sleep_briefly(index);
        if (index % 5 == 3) throw Error("bad");
      };
      const DataLoader loader(dataset, no_transforms(), options);
      sleep_briefly(i);
    }
  });
}

TEST(ReadAhead, DestructionWakesWorkersWaitingForReads) {
  const auto dataset = std::make_shared<TestSet>(64);
  Gate gate;
  dataset->on_read = [&](std::size_t) { gate.wait(); };
  auto loader = std::make_unique<DataLoader>(
      dataset, no_transforms(),
      DataLoaderOptions{{.batch_size = 32}, {.num_workers = 8, .read_ahead = {.reads = 1}}});
  dataset->reads.wait_for(1);
  give_time();
  std::jthread stop([&] { loader.reset(); });
  give_time();
  gate.open();
}

TEST(ReadAhead, InvalidOptionsAreRefusedTogether) {
  const std::string message =
      refusal(std::make_shared<TestSet>(8), no_transforms(),
              {{}, {.num_workers = 0, .read_ahead = {.reads = 1025, .chunk_bytes = 4095}}});
  for (const char* problem :
       {"num_workers 0", "1025 reads in flight: give at most 1024",
        "read requests of 4095 bytes: give at least 4096, or 0 for no limit"}) {
    EXPECT_THAT(message, HasSubstr(problem));
  }
  EXPECT_EQ(refusal(std::make_shared<TestSet>(8), no_transforms(),
                    {{}, {.read_ahead = {.reads = 1, .chunk_bytes = 4096}}}),
            "");
}

TEST(ReadAhead, ChunkBytesApplyToEveryReadingThread) {
  for (const unsigned reads : {0u, 2u}) {
    std::mutex mutex;
    std::vector<std::size_t> requests;
    const auto dataset = std::make_shared<TestSet>(8);
    dataset->on_read = [&](std::size_t index) {
      const std::lock_guard lock(mutex);
      requests.push_back(ReadChunk::of(std::size_t{1} << 30));
      if (index == 2) throw Error("gone");  // a worker reads the replacement
    };
    {
      DataLoader loader(dataset, no_transforms(),
                        {{.batch_size = kReadAheadBatch, .on_bad_sample = OnBadSample::skip},
                         {.num_workers = 2, .read_ahead = {.reads = reads, .chunk_bytes = 8192}}});
      take(loader, 4);
    }
    EXPECT_THAT(requests, testing::Each(8192u));
    EXPECT_GE(requests.size(), 16u);
  }
}

}  // namespace
}  // namespace slipstream
