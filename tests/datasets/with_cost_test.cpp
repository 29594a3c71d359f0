#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/files.h"
#include "core/patience.h"
#include "core/seconds_since.h"
#include "datasets/with_cost.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/loader/data_loader.h"
#include "support/array_values.h"
#include "support/image_records.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Lt;
using testing::StartsWith;

std::shared_ptr<const Dataset> images() {
  return synthetic_segmentation({.samples = 8, .size = 4, .classes = 3, .seed = 1});
}

/// The bytes of the first `batches` slabs, and the counters of the host steps.
struct RunResult {
  std::vector<std::byte> bytes;
  std::vector<StepCounter> counters;
  double wall_s = 0;
};

RunResult run(std::shared_ptr<const Dataset> dataset, unsigned workers = 1) {
  RunResult result;
  const auto start = std::chrono::steady_clock::now();
  DataLoader loader(std::move(dataset), {}, {{.batch_size = 8}, {.num_workers = workers}});
  const HostBatch batch = loader.next();
  result.wall_s = seconds_since(start);
  result.bytes.assign(batch.data, batch.data + loader.layout().bytes);
  result.counters = loader.counters();
  return result;
}

TEST(WithCost, CostsDoNotChangeValues) {
  const SyntheticCosts costs{.read = {.sleep_s = 1e-4, .memory_bytes = 1000},
                             .decode = {.cpu_s = 1e-4, .memory_bytes = 100, .lock = true}};
  EXPECT_EQ(run(with_cost(images(), costs)).bytes, run(images()).bytes);
}

TEST(WithCost, CostIsPaidOncePerSampleInItsStep) {
  const SyntheticCosts costs{.read = {.sleep_s = 0.004}, .decode = {.cpu_s = 0.003}};
  const RunResult paid = run(with_cost(images(), costs));
  const StepCounter& read = paid.counters[0];
  const StepCounter& decode = paid.counters[1];
  // Counters are read while a worker prepares the next batch: one call may be counted only partly.
  const auto reads = static_cast<double>(read.calls);
  const auto decodes = static_cast<double>(decode.calls);
  EXPECT_GE(decodes, 8);
  EXPECT_THAT(read.wall_s, Ge((reads - 1) * 0.004));
  EXPECT_THAT(read.cpu_s, Lt((reads + 1) * 0.002));
  EXPECT_THAT(decode.cpu_s, AllOf(Ge((decodes - 1) * 0.003), Lt((decodes + 1) * 0.005)));
}

TEST(WithCost, LockedCostIsPaidByOneThreadAtATime) {
  const SyntheticCosts shared{.read = {.sleep_s = 0.02}};
  SyntheticCosts locked = shared;
  locked.read.lock = true;
  EXPECT_GE(run(with_cost(images(), locked), 8).wall_s, 8 * 0.02);
  test::eventually("threads without a lock spend the cost in parallel",
                   [&] { return run(with_cost(images(), shared), 8).wall_s < 8 * 0.02; });
}

TEST(WithCost, MemoryTrafficTakesTime) {
  const SyntheticCosts costs{.read = {.memory_bytes = std::size_t{512} << 20}};
  const auto dataset = with_cost(images(), costs);
  Sample sample;
  const auto start = std::chrono::steady_clock::now();
  dataset->read(0, sample);
  // Not even a CPU cache delivers half a GiB within a millisecond.
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1));
}

TEST(WithCost, EncodedFieldsAreStillDecoded) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "a");
  write_file_atomically(folder.path() / "a" / "1.png", image_record("rgb.png").file);
  const auto dataset = with_cost(image_folder(folder.path()), {.decode = {.cpu_s = 1e-5}});
  Sample sample;
  HostArray spare;
  dataset->read(0, sample);
  dataset->decode(dataset->fields()[0], {}, sample.fields[0], spare);
  EXPECT_EQ(copy_levels(sample.fields[0].array), image_record("rgb.png").rgb);
  EXPECT_THAT(dataset->name(0), HasSubstr("a/1.png"));
}

TEST(WithCost, InvalidCostsAreRefused) {
  EXPECT_THAT(
      thrown_by([] { with_cost(images(), {.read = {.sleep_s = -1}, .decode = {.cpu_s = 4000}}); }),
      AllOf(StartsWith("Refused: the cost of read"), HasSubstr("the cost of decode")));
  EXPECT_THAT(thrown_by([] { with_cost(nullptr, {}); }), StartsWith("Refused: "));
}

}  // namespace
}  // namespace slipstream
