#include "features/feature_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "features/feature_store_fixture.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(FeatureStoreTest, WrittenRecordsAreReadWithTheSameBits) {
  const auto store = open();
  const FeatureBatch made = batch(0, 50);
  EXPECT_EQ(store->record_bytes(), kRecordBytes);
  EXPECT_EQ(good_records(*store, made), 0U);
  EXPECT_EQ(write(*store, made), 50U);
  EXPECT_EQ(good_records(*store, made), 50U);
  const FeatureStats stats = store->stats();
  EXPECT_EQ(stats.records, 50U);
  EXPECT_EQ(stats.hits, 50U);
  EXPECT_EQ(stats.misses, 50U);
  EXPECT_EQ(stats.damaged, 0U);
  EXPECT_EQ(stats.bytes, bytes_on_disk(dir()));
  EXPECT_EQ(store->filling_ended(), "");
}

TEST_F(FeatureStoreTest, LaterProcessFindsRecordsAndAppends) {
  write(*open(), batch(0, 10));
  const auto store = open();
  EXPECT_EQ(write(*store, batch(5, 10)), 5U);
  EXPECT_EQ(good_records(*store, batch(0, 15)), 15U);
  EXPECT_EQ(good_records(*open(), batch(0, 15)), 15U);
  EXPECT_FALSE(fs::exists(dir() / "1.index"));
}

TEST_F(FeatureStoreTest, EntriesDifferBySampleAndVersion) {
  const auto store = open();
  write(*store, batch(3, 1, 0));
  EXPECT_EQ(good_records(*store, batch(3, 1, 1)), 0U);
  EXPECT_EQ(write(*store, batch(3, 1, 1)), 1U);
  EXPECT_EQ(good_records(*store, batch(3, 1, 0)), 1U);
  EXPECT_EQ(good_records(*store, batch(3, 1, 1)), 1U);
}

TEST_F(FeatureStoreTest, RepeatedEntryIsStoredOnce) {
  const auto store = open();
  FeatureBatch made = batch(0, 2);
  made.entries[1] = made.entries[0];
  EXPECT_EQ(write(*store, made), 1U);
  EXPECT_EQ(store->find(made.entries)[0], store->find(made.entries)[1]);
}

TEST_F(FeatureStoreTest, RecordOfNanBytesIsStoredAsItIs) {
  const auto store = open();
  FeatureBatch made = batch(0, 2);
  constexpr auto kQuiet = std::numeric_limits<float>::quiet_NaN();
  constexpr auto kSignaling = std::numeric_limits<float>::signaling_NaN();
  std::memcpy(&made.records[0], &kQuiet, sizeof(float));
  std::memcpy(&made.records[4], &kSignaling, sizeof(float));
  std::fill(made.records.begin() + kRecordBytes, made.records.end(), std::byte{0xff});
  write(*store, made);
  EXPECT_EQ(good_records(*store, made), 2U);
}

TEST_F(FeatureStoreTest, ThreadsReadTheSameRecords) {
  const std::string fields = R"([{"name": "x", "dtype": "uint8", "shape": [300000]}])";
  FeatureStore store(folder(), "1", fields);
  std::vector<FeatureEntry> entries;
  for (std::uint64_t i = 0; i < 16; ++i) entries.push_back({i, 0});
  std::vector<std::byte> records(16 * store.record_bytes());
  RandomStream random({.seed = 5});
  for (std::byte& each : records) each = static_cast<std::byte>(random.below(256));
  store.write(entries, std::vector<std::int64_t>(16), records);
  for (const unsigned threads : {1U, 3U, 64U}) {
    std::vector<std::byte> read(records.size());
    EXPECT_EQ(store.read(store.find(entries), read, threads), std::vector<bool>(16, true));
    EXPECT_EQ(read, records);
  }
}

TEST_F(FeatureStoreTest, ThreadsFindReadAndWriteAtTheSameTime) {
  const auto store = open();
  write(*store, batch(0, 20));
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      for (std::uint64_t round = 0; round < 20; ++round) {
        write(*store, batch(100 * id + 4 * round, 8));
        good_records(*store, batch(0, 20), 2);
        store->refresh();
        store->stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good_records(*store, batch(0, 384)), store->stats().records);
  EXPECT_EQ(store->stats().records, 4 * 84U);
}

TEST_F(FeatureStoreTest, StoresOfTwoProcessesFillOneKeyTogether) {
  const auto ours = open();
  write(*ours, batch(0, 10));
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto theirs = open();
    const bool is_good = write(*theirs, batch(5, 15)) == 10 && theirs->stats().records == 20;
    ::_exit(is_good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(good_records(*ours, batch(0, 20)), 10U);
  EXPECT_EQ(ours->refresh(), 10U);
  EXPECT_EQ(good_records(*ours, batch(0, 20)), 20U);
  EXPECT_TRUE(fs::exists(dir() / "1.index"));
}

TEST_F(FeatureStoreTest, ForkedProcessesWriteToFilesOfTheirOwn) {
  const auto store = open();
  write(*store, batch(0, 4));
  std::vector<::pid_t> children;
  for (std::uint64_t id = 0; id < 3; ++id) {
    children.push_back(::fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() != 0) continue;
    for (std::uint64_t round = 0; round < 25; ++round)
      write(*store, batch(1000 * (id + 1) + 4 * round, 4));
    ::_exit(0);
  }
  for (std::uint64_t round = 0; round < 25; ++round) write(*store, batch(4 + 4 * round, 4));
  for (const ::pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  store->refresh();
  EXPECT_EQ(store->stats().records, 404U);
  EXPECT_EQ(good_records(*store, batch(0, 104)), 104U);
  for (const std::uint64_t first : {1000, 2000, 3000})
    EXPECT_EQ(good_records(*store, batch(first, 100)), 100U);
}

TEST_F(FeatureStoreTest, KeysInOneFolderAreSeparate) {
  const auto one = open(R"({"weights": 1})");
  const auto two = open(R"({"weights": 2})");
  write(*one, batch(0, 10));
  EXPECT_EQ(good_records(*two, batch(0, 10)), 0U);
  EXPECT_EQ(write(*two, batch(0, 10)), 10U);
  EXPECT_NE(key_folder(*one, folder()), key_folder(*two, folder()));
}

TEST_F(FeatureStoreTest, BlanksInKeyDoNotMatter) {
  write(*open("{\"a\":1}"), batch(0, 3));
  EXPECT_EQ(good_records(*open(" {\"a\" :\n 1}"), batch(0, 3)), 3U);
}

TEST_F(FeatureStoreTest, SameKeyWithOtherFieldsIsRefused) {
  write(*open("1"), batch(0, 3));
  const std::string other = R"([{"name": "x", "dtype": "float16", "shape": [48]}])";
  EXPECT_THAT(thrown_by([&] { FeatureStore(folder(), "1", other); }),
              AllOf(StartsWith("Refused: "),
                    HasSubstr("x: float32 [4, 5], y: int64 [2], not x: "
                              "float16 [48]"),
                    HasSubstr("slipstream features prune")));
}

TEST_F(FeatureStoreTest, BudgetOfAllKeysTogetherEndsFilling) {
  const auto first = open("1");
  write(*first, batch(0, 10));
  const std::uint64_t manifest = fs::file_size(key_folder(*first, folder()) / "manifest.json");
  const std::uint64_t per_record = kRecordBytes + kSlotBytes;
  const std::uint64_t budget = 2 * manifest + 15 * per_record + 20;
  const auto second = open("2", budget);
  EXPECT_EQ(write(*second, batch(0, 3)), 3U);
  EXPECT_EQ(second->filling_ended(), "");
  EXPECT_EQ(write(*second, batch(3, 4)), 2U);
  EXPECT_THAT(second->filling_ended(),
              AllOf(StartsWith("the budget of "), HasSubstr("other keys use"),
                    HasSubstr("slipstream features prune")));
  EXPECT_EQ(write(*second, batch(7, 4)), 0U);
  EXPECT_EQ(good_records(*second, batch(0, 11)), 5U);
  EXPECT_LE(bytes_on_disk(folder()), budget);
}

TEST_F(FeatureStoreTest, ClosedStoreIsRefused) {
  const auto store = open();
  write(*store, batch(0, 1));
  store->close();
  store->close();
  EXPECT_THAT(thrown_by([&] { store->find(batch(0, 1).entries); }), StartsWith("Refused: "));
  EXPECT_THAT(thrown_by([&] { write(*store, batch(0, 1)); }), StartsWith("Refused: "));
  EXPECT_THAT(thrown_by([&] { store->refresh(); }), StartsWith("Refused: "));
}

TEST_F(FeatureStoreTest, NumberWithoutRecordIsRefused) {
  const auto store = open();
  std::vector<std::byte> into(kRecordBytes);
  for (const std::int64_t number : {-1, 0})
    EXPECT_THAT(thrown_by([&] { store->read(std::vector<std::int64_t>{number}, into, 1); }),
                StartsWith("Refused: there is no record"));
}

TEST_F(FeatureStoreTest, RecordsAreOrderedByIndexThenVersion) {
  const auto store = open();
  write(*store, batch(2, 1, 1));
  write(*store, batch(2, 1, 0));
  write(*store, batch(0, 2, 0));
  std::vector<std::pair<std::int64_t, std::uint64_t>> order;
  for (const auto& [number, record] : store->ordered_records())
    order.emplace_back(record.index, record.entry.version);
  using Pair = std::pair<std::int64_t, std::uint64_t>;
  EXPECT_THAT(order, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0), Pair(2, 1)));
}

TEST_F(FeatureStoreTest, EmptyBatchWritesNothing) {
  const auto store = open();
  EXPECT_EQ(write(*store, {}), 0U);
  EXPECT_TRUE(store->find({}).empty());
  EXPECT_TRUE(store->read({}, {}, 4).empty());
}

}  // namespace
}  // namespace slipstream
