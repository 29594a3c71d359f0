#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstring>

#include "cuda/device_buffer.h"
#include "cuda/nvjpeg.h"
#include "engine/context_parts.h"
#include "engine/device_memory.h"
#include "engine/engine.h"
#include "engine/jpeg_unpacker.h"
#include "gpu.h"
#include "loader/sampler.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/difference.h"
#include "support/jpeg_damage.h"
#include "support/jpeg_set.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Bytes = std::vector<std::byte>;
using Chain = std::vector<NamedOp>;

/// Tests that need the nvJPEG library. Without it they are skipped, or fail if a GPU is required.
class JpegRunTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    // Creates PyTorch's allocator for the device.
    context();
    try {
      const cuda::nvjpeg::Library library(cuda::nvjpeg::default_locations());
    } catch (const Refused& refused) {
      if (gpu_is_required()) FAIL() << refused.what();
      GTEST_SKIP() << refused.what();
    }
  }
};

/// Damages a table number in a file, so that neither nvJPEG nor the CPU can decode it.
void spoil(std::vector<std::byte>& file) {
  for (std::size_t i = 0; i + 4 < file.size(); ++i) {
    if (file[i] != std::byte{0xff} || file[i + 1] != std::byte{0xc4}) continue;
    file[i + 4] = std::byte{0x7f};
    return;
  }
  FAIL() << "the file has no Huffman table";
}

class JpegUnpackerTest : public JpegRunTest {
 protected:
  static constexpr std::size_t kBatchSize = 6;

  std::unique_ptr<JpegUnpacker> unpacker(const SlabLayout& layout, bool may_use_engines = true) {
    JpegUnpacker::Options options;
    options.memory = &memory_;
    options.name = [](std::uint64_t sample) { return "picture " + std::to_string(sample); };
    options.may_use_engines = may_use_engines;
    return std::make_unique<JpegUnpacker>(layout, std::move(options));
  }

  static DataLoaderOptions options(const WireFormats& wire, OnBadSample what = OnBadSample::stop) {
    DataLoaderOptions options{{.batch_size = kBatchSize, .on_bad_sample = what}, {.wire = wire}};
    options.memory = &get_host_memory(context(), true);
    return options;
  }

  /// Returns the images that the device decodes from a slab.
  static std::vector<Bytes> unpack(JpegUnpacker& jpeg, const SlabLayout& layout,
                                   const std::byte* slab) {
    const DeviceBuffer<std::byte> block(layout.device_bytes, 0x5a);
    const cuda::Stream stream(0);
    jpeg.unpack_async(slab, block.get(), stream);
    Bytes all(layout.device_bytes);
    cuda::check_cuda(
        cudaMemcpyAsync(all.data(), block.get(), all.size(), cudaMemcpyDeviceToHost, stream.get()));
    stream.synchronize();
    const SlabField& field = jpeg.field();
    const auto bytes = static_cast<std::ptrdiff_t>(field.spec.shape.elements());
    std::vector<Bytes> images;
    for (std::size_t i = 0; i < kBatchSize; ++i) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(field.device_offset_bytes) +
                        static_cast<std::ptrdiff_t>(i) * bytes;
      images.emplace_back(from, from + bytes);
    }
    return images;
  }

  static Bytes plain_image(const DataLoader& loader, const HostBatch& batch, std::size_t position) {
    const SlabField& field = loader.layout().field("image");
    const std::byte* from = batch.data + field.offset_bytes + position * field.sample_bytes;
    return {from, from + field.sample_bytes};
  }

  /// Compares `batches` batches with those of the CPU, and returns the number of images that the
  /// device decoded.
  std::size_t compare_with_cpu(const std::shared_ptr<const Dataset>& dataset, const Chain& chain,
                               std::size_t batches, bool may_use_engines,
                               OnBadSample what = OnBadSample::stop) {
    DataLoader files(dataset, chain, options({{"image", Wire::jpeg}}, what));
    DataLoader pixels(dataset, chain, options({}, what));
    const auto jpeg = unpacker(files.layout(), may_use_engines);
    std::size_t made = 0;
    for (std::size_t b = 0; b < batches; ++b) {
      const HostBatch batch = files.next();
      const HostBatch expected = pixels.next();
      const auto images = unpack(*jpeg, files.layout(), batch.data);
      for (std::size_t i = 0; i < kBatchSize; ++i) {
        const JpegSlot slot = jpeg_slot(jpeg->field(), batch.data, i);
        const Difference apart = difference(images[i], plain_image(pixels, expected, i));
        const bool is_file = slot.holds == JpegSlot::Holds::file;
        made += is_file ? 1 : 0;
        EXPECT_LE(apart.mean, is_file ? 1.0 : 0.0) << "sample " << slot.sample << ", batch " << b;
        EXPECT_LE(apart.most, is_file ? 12 : 0) << "sample " << slot.sample << ", batch " << b;
      }
      files.release(batch, nullptr);
      pixels.release(expected, nullptr);
    }
    EXPECT_EQ(jpeg->images(), batches * kBatchSize);
    EXPECT_EQ(jpeg->decoded_by_cpu(), batches * kBatchSize - made);
    return made;
  }

  DeviceMemory memory_;
};

TEST_F(JpegUnpackerTest, DecodedBatchesAreCloseToCpuPixels) {
  const auto set = jpeg_set(30, {}, 150);
  const Chain chains[] = {{{"resize", Resize{{64, 96}}}},
                          {{"crop", CenterCrop{{100, 90}}}, {"flip", RandomHorizontalFlip{}}},
                          {{"crop", RandomResizedCrop{64}},
                           {"flip", RandomHorizontalFlip{}},
                           {"down", RandomVerticalFlip{}}}};
  for (const Chain& chain : chains) {
    for (const bool may_use_engines : {true, false}) {
      SCOPED_TRACE(chain.front().name + (may_use_engines ? ", engines" : ", kernels"));
      EXPECT_EQ(compare_with_cpu(set, chain, 5, may_use_engines), 30U);
    }
  }
}

TEST_F(JpegUnpackerTest, CpuDecodedFilesMatchCpuPixelsAtTheirPositions) {
  const auto set = jpeg_set(12, {1, 4, 5, 11}, 150);
  const Chain chain = {{"crop", RandomResizedCrop{{48, 64}}}, {"flip", RandomHorizontalFlip{}}};
  EXPECT_EQ(compare_with_cpu(set, chain, 2, true), 8U);
  EXPECT_EQ(compare_with_cpu(jpeg_set(6, {0, 1, 2, 3, 4, 5}, 60), chain, 1, true), 0U);
}

TEST_F(JpegUnpackerTest, ReplacementsOfDamagedFilesMatchCpu) {
  const auto damages = jpeg_damages();
  const auto set = jpeg_set(2 * damages.size(), {}, 150);
  for (std::size_t i = 0; i < damages.size(); ++i) damages[i].spoil(set->files[i]);
  const Chain chain = {{"crop", RandomResizedCrop{64}}, {"flip", RandomHorizontalFlip{}}};
  for (const bool may_use_engines : {true, false})
    EXPECT_GT(compare_with_cpu(set, chain, 6, may_use_engines, OnBadSample::skip), 3 * kBatchSize);
}

/// The slot states another size than the file has: nvJPEG refuses that, but the CPU can decode the
/// file.
TEST_F(JpegUnpackerTest, FileRefusedByNvjpegIsDecodedByCpu) {
  const auto set = jpeg_set(kBatchSize, {}, 60);
  const Chain chain = {{"crop", RandomResizedCrop{{24, 32}}}, {"flip", RandomHorizontalFlip{}}};
  DataLoader files(set, chain, options({{"image", Wire::jpeg}}));
  DataLoader pixels(set, chain, options({}));
  const auto jpeg = unpacker(files.layout());
  const HostBatch batch = files.next();
  const auto expected = unpack(*jpeg, files.layout(), batch.data);
  Bytes changed(batch.data, batch.data + files.layout().bytes);
  std::byte* at = changed.data() + jpeg->field().offset_bytes + 2 * jpeg->field().sample_bytes;
  JpegSlot slot = jpeg_slot(jpeg->field(), changed.data(), 2);
  ++slot.height;
  std::memcpy(at, &slot, sizeof(slot));
  const auto images = unpack(*jpeg, files.layout(), changed.data());
  EXPECT_EQ(jpeg->decoded_by_cpu(), 1U);
  const HostBatch usual = pixels.next();
  EXPECT_EQ(images[2], plain_image(pixels, usual, 2));
  for (const std::size_t other : {0, 1, 3, 4, 5})
    EXPECT_EQ(images[other], expected[other]) << other;
}

TEST_F(JpegUnpackerTest, UndecodableFileIsAnErrorThatNamesIt) {
  const auto set = jpeg_set(kBatchSize, {}, 60);
  DataLoaderOptions in_order = options({{"image", Wire::jpeg}});
  in_order.shuffle = false;
  DataLoader files(set, {{"resize", Resize{{24, 32}}}}, in_order);
  const auto jpeg = unpacker(files.layout());
  const HostBatch batch = files.next();
  // Loaders never send damaged files to the device, so the copy of the slab is changed.
  spoil(set->files[3]);
  Bytes changed(batch.data, batch.data + files.layout().bytes);
  const std::span<const std::byte> there = jpeg_payload(jpeg->field(), changed.data(), 3);
  std::copy(set->files[3].begin(), set->files[3].end(),
            changed.begin() + (there.data() - changed.data()));
  EXPECT_THAT(thrown_by([&] { unpack(*jpeg, files.layout(), changed.data()); }),
              AllOf(StartsWith("Error: sample 3 (picture 3): nvJPEG cannot decode the file"),
                    HasSubstr("broken JPEG")));
}

TEST_F(JpegUnpackerTest, BatchesWithReusedSlabsMatchSynchronousDecoding) {
  const auto set = jpeg_set(24, {}, 150);
  const Chain chain = {{"crop", RandomResizedCrop{{48, 64}}}};
  DataLoaderOptions wanted = options({{"image", Wire::jpeg}});
  wanted.prefetch_batches = 1;
  wanted.held_batches = 1;
  wanted.num_workers = 3;
  wanted.shuffle = false;
  std::vector<std::vector<Bytes>> expected;
  {
    DataLoader files(set, chain, wanted);
    const auto jpeg = unpacker(files.layout());
    for (int b = 0; b < 16; ++b) {
      const HostBatch batch = files.next();
      expected.push_back(unpack(*jpeg, files.layout(), batch.data));
      files.release(batch, nullptr);
    }
  }
  cuda::CudaLane lane("copy", 0, 0);
  std::vector<std::unique_ptr<Mark>> marks;
  DataLoader files(set, chain, wanted);  // declared after the marks, so it is destroyed before them
  const auto jpeg = unpacker(files.layout());
  const SlabLayout& layout = files.layout();
  const DeviceBuffer<std::byte> blocks(16 * layout.device_bytes);
  for (std::size_t i = 0; i < files.slabs(); ++i) marks.push_back(lane.make_mark());
  for (std::size_t b = 0; b < 16; ++b) {
    const HostBatch batch = files.next();
    if (b % 3 == 0) cuda::delay_async(3000, lane.stream());
    jpeg->unpack_async(batch.data, blocks.get() + b * layout.device_bytes, lane.stream());
    lane.record(*marks[batch.slab]);
    files.release(batch, marks[batch.slab].get());
  }
  lane.synchronize();
  const Bytes all = blocks.read();
  const SlabField& field = jpeg->field();
  const std::size_t bytes = field.spec.shape.elements();
  for (std::size_t b = 0; b < 16; ++b) {
    for (std::size_t i = 0; i < kBatchSize; ++i) {
      const std::size_t at = b * layout.device_bytes + field.device_offset_bytes + i * bytes;
      EXPECT_EQ(std::memcmp(&all[at], expected[b][i].data(), bytes), 0)
          << "batch " << b << ", position " << i;
    }
  }
}

class JpegTrainingTest : public JpegRunTest {
 protected:
  static Tiny tiny(const std::shared_ptr<JpegSet>& set = jpeg_set(32, {5, 20}, 60)) {
    Tiny tiny;
    tiny.stored_size = 60;  // a Resize is needed
    tiny.size = 16;
    tiny.dataset = set;
    return tiny;
  }
  static Plan with_files(Plan plan) {
    plan.numerics.wire = {{"image", Wire::jpeg}};
    plan.schedule.loader.num_workers = 2;
    return plan;
  }
};

TEST_F(JpegTrainingTest, EveryPlanGivesTheSerialDigest) {
  const RunResult serial = fresh_run(tiny(), with_files(serial_plan()), steps(12));
  for (const Driver driver : {Driver::interleaved, Driver::threaded}) {
    for (const std::size_t depth : {3, 5}) {
      const Plan plan = with_files(build_plan(kThreeLanes, driver, depth));
      EXPECT_EQ(fresh_run(tiny(), plan, steps(12), delayed(400, 0)).digest, serial.digest)
          << describe(plan);
    }
  }
  const RunResult plain = fresh_run(tiny(), serial_plan(), steps(12));
  EXPECT_NEAR(serial.losses.back(), plain.losses.back(), 0.1);
  EXPECT_FALSE(plain.jpeg.has_value());
}

TEST_F(JpegTrainingTest, RunReportsNumberOfImagesDecodedOnCpu) {
  const auto one = trainer(tiny(), with_files(serial_plan()).numerics);
  const RunResult first = one->run(with_files(serial_plan()), steps(8));
  ASSERT_TRUE(first.jpeg.has_value());
  EXPECT_EQ(first.jpeg->images, 32U);
  EXPECT_EQ(first.jpeg->on_cpu, 2U) << "two per epoch; prefetched batches do not count";
  std::printf("engines: %d\n", first.jpeg->engines);
  EXPECT_EQ(one->run(with_files(serial_plan()), steps(4)).jpeg->images, 16U);
}

/// The layout of a batch depends on the random parameters of transforms that run on the device.
TEST_F(JpegTrainingTest, PlansWithDifferentDeviceTransformsAlternate) {
  Tiny flipped = tiny();
  flipped.stored_size = 0;
  flipped.transforms = {{"resize", Resize{{16, 16}}}, {"flip", RandomHorizontalFlip{}}};
  const Plan on_loader = with_files(serial_plan());
  Plan on_device =
      with_files(build_plan({{"copy", "augment", "encode", "train"}}, Driver::threaded, 1));
  on_device.schedule.loader.on_device = "flip";
  const std::uint64_t digest = fresh_run(flipped, on_device, steps(8)).digest;
  const auto one = trainer(flipped, on_device.numerics);
  const State start = one->state();
  EXPECT_EQ(one->run(on_loader, steps(8)).digest, digest);
  one->restore(start);
  EXPECT_EQ(one->run(on_device, steps(8)).digest, digest);
}

TEST_F(JpegTrainingTest, CachingWorksWithJpegWireExceptAfterDecode) {
  const Plan plan = with_files(build_plan(kThreeLanes, Driver::threaded, 4));
  const auto one = trainer(tiny(), plan.numerics);
  for (const char* after : {"read", "collate", "copy"}) {
    RunOptions options = steps(6);
    options.cut = Cut{after, 2};
    EXPECT_EQ(one->run(plan, options).steps, 6U) << after;
  }
  RunOptions options = steps(6);
  options.cut = Cut{"decode", 2};
  EXPECT_THAT(thrown_by([&] { one->run(plan, options); }), HasSubstr("caches pixels"));
}

TEST_F(JpegTrainingTest, UndecodableFileEndsRunAndIsNamed) {
  const auto set = jpeg_set(32, {}, 60);
  spoil(set->files[9]);
  for (const Plan& plan : {serial_plan(), build_plan(kThreeLanes, Driver::threaded, 4)}) {
    EXPECT_THAT(thrown_by([&] { fresh_run(tiny(set), with_files(plan), steps(8)); }),
                AllOf(StartsWith("Error: input at step "), HasSubstr("sample 9 (picture 9.jpg"),
                      HasSubstr("broken JPEG: ")))
        << describe(plan);
  }
}

/// Resize has no random parameters, so a replacement gives the same image as at its original
/// position.
TEST_F(JpegTrainingTest, DamagedFilesAreReplacedByNextReadableSamples) {
  constexpr std::uint64_t kFirstBad = 9;
  constexpr std::uint64_t kSecondBad = 20;
  const auto damaged = jpeg_set(32, {5}, 60);
  const auto replaced = jpeg_set(32, {5}, 60);
  const Sampler order(32, true, 1);
  for (std::uint64_t place = 0; place < 32; ++place) {
    const std::uint64_t bad = order.at(0, place);
    if (bad != kFirstBad && bad != kSecondBad) continue;
    std::uint64_t stand_in = bad;
    for (std::uint64_t at = place; stand_in == kFirstBad || stand_in == kSecondBad;)
      stand_in = order.at(0, ++at % 32);
    replaced->files[bad] = replaced->files[stand_in];
    replaced->masks[bad] = replaced->masks[stand_in];
    auto& file = damaged->files[bad];
    if (bad == kFirstBad) {
      spoil(file);
    } else {
      keep_first(file, in_scan(file, 1, 2));
    }
  }
  Tiny skipping = tiny(damaged);
  skipping.on_bad_sample = OnBadSample::skip;
  const RunResult expected = fresh_run(tiny(replaced), with_files(serial_plan()), steps(8));
  for (const Plan& plan : {serial_plan(), build_plan(kThreeLanes, Driver::threaded, 4)}) {
    const RunResult result = fresh_run(skipping, with_files(plan), steps(8));
    EXPECT_EQ(result.digest, expected.digest) << describe(plan);
    ASSERT_EQ(result.skipped.samples.size(), 2U) << describe(plan);
    EXPECT_EQ(result.skipped.samples[0].sample, kFirstBad);
    EXPECT_EQ(result.skipped.samples[1].sample, kSecondBad);
    EXPECT_THAT(result.skipped.samples[0].message, HasSubstr("picture 9.jpg"));
  }
}

TEST_F(JpegTrainingTest, ReservedMemoryDoesNotGrowAfterWarmUp) {
  const Plan plan = with_files(build_plan(kThreeLanes, Driver::threaded, 4));
  const auto one = trainer(tiny(jpeg_set(64, {}, 150)), plan.numerics);
  const MemoryResult first = one->run(plan, steps(200)).memory;
  EXPECT_EQ(first.reserved_bytes, first.reserved_after_warm_up_bytes);
  EXPECT_EQ(one->run(plan, steps(100)).memory.reserved_bytes, first.reserved_bytes);
}

}  // namespace
}  // namespace slipstream::test
