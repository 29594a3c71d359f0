#include <ATen/Functions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <regex>

#include "core/patience.h"
#include "cuda/cuda.h"
#include "engine/context_parts.h"
#include "engine/engine.h"
#include "engine/gpu_flag.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Plan pipelined(std::size_t depth = 4) {
  return build_plan(kThreeLanes, Driver::interleaved, depth);
}

class RunBoundaryTest : public EngineTest {
 protected:
  static cuda::StreamView current() {
    return cuda::StreamView(c10::cuda::getCurrentCUDAStream().stream());
  }
  static void change_weights(const Trainer& one) {
    const at::NoGradGuard no_gradients;
    for (at::Tensor& p : one.pipeline().train_stage().module->parameters()) p.mul_(0.5);
  }
};

TEST_F(RunBoundaryTest, RunWaitsForPendingWorkOnCallersStream) {
  for (const Plan& plan : {serial_plan(), pipelined()}) {
    const auto prepared = trainer({});
    change_weights(*prepared);
    cuda::check_cuda(cudaDeviceSynchronize());
    const std::uint64_t expected = prepared->run(plan, steps(6)).digest;

    const auto late = trainer({});
    cuda::check_cuda(cudaDeviceSynchronize());
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    cuda::delay_async(100'000, current());
    change_weights(*late);
    EXPECT_EQ(late->run(plan, steps(6)).digest, expected) << describe(plan);
  }
}

TEST_F(RunBoundaryTest, CachingRunWaitsForPendingWritesToFrozenWeights) {
  const auto first_module = [](Trainer& one) {
    return one.pipeline().stages().front().stage.module;
  };
  std::vector<std::uint64_t> digests;
  for (double delay_us : {0.0, 100'000.0}) {
    const auto one = trainer({});
    cuda::check_cuda(cudaDeviceSynchronize());
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    if (delay_us > 0) cuda::delay_async(delay_us, current());
    for (at::Tensor& p : first_module(*one)->parameters()) p.mul_(0.25);
    if (delay_us == 0) cuda::check_cuda(cudaDeviceSynchronize());
    RunOptions options = steps(5);
    options.cut = Cut{"encode", 2};
    digests.push_back(one->run(pipelined(), options).digest);
    EXPECT_EQ(one->position(), 0U);
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST_F(RunBoundaryTest, EveryLaneIsIdleAfterARunThrows) {
  Tiny tiny;
  tiny.extra = {{"check", [](Batch& batch) {
                   if (batch.number() == 5) throw std::runtime_error("no luck");
                 }}};
  const Plan plan =
      build_plan({{"copy"}, {"encode"}, {"check"}, {"train"}}, Driver::interleaved, 5);
  const auto one = trainer(tiny);
  for (const char* expected :
       {"Error: stage 'check' at step 5: no luck", "Error: stage 'check' at step 5: no luck"}) {
    EXPECT_EQ(thrown_by([&] { run_with(*one, plan, steps(8), delayed(3000, 0)); }), expected);
    for (const LanePlan& lane : plan.schedule.lanes) {
      auto* stream =
          dynamic_cast<cuda::CudaLane*>(&get_lane(context(), lane.steps.back(), lane.priority));
      ASSERT_NE(stream, nullptr);
      EXPECT_EQ(cudaStreamQuery(stream->stream().get()), cudaSuccess) << lane.steps.back();
    }
  }
}

TEST_F(RunBoundaryTest, CallersCurrentStreamIsRestored) {
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const auto before = c10::cuda::getCurrentCUDAStream();
  fresh_run({}, pipelined(), steps(4));
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), before);
}

class GpuOverlapTest : public EngineTest {
 protected:
  /// Runs steps in which train(n) ends on the device only after encode(n+1) has begun there.
  /// Returns false if the watchdog had to release the wait, as in a serial run, where nothing else
  /// can.
  bool overlaps(const Plan& plan, std::chrono::milliseconds patience) {
    constexpr std::uint64_t kSteps = 10;
    Flag flag;
    Tiny tiny;
    // A first run loads kernels and allocates memory, because both may wait for the device.
    tiny.extra = {{"signal", [](Batch&) {}}};
    tiny.loss = [](const at::Tensor& output, const Batch&) { return output.square().mean(); };
    fresh_run(tiny, plan, steps(kSteps));
    tiny.extra = {{"signal", [&](Batch& batch) {
                     flag.write(static_cast<std::uint32_t>(batch.number()) + 1);
                   }}};
    tiny.loss = [&](const at::Tensor& output, const Batch& batch) {
      flag.await(static_cast<std::uint32_t>(std::min(batch.number() + 2, kSteps)));
      return output.square().mean();
    };
    const Watchdog watchdog(flag, patience);
    fresh_run(tiny, plan, steps(kSteps));
    return !watchdog.has_released();
  }
};

TEST_F(GpuOverlapTest, NextBatchIsEncodedWhileCurrentOneTrains) {
  const Lanes lanes = {{"copy"}, {"encode", "signal"}, {"train"}};
  for (const Driver driver : {Driver::interleaved, Driver::threaded})
    EXPECT_TRUE(overlaps(build_plan(lanes, driver, 4), kPatience));
}

TEST_F(GpuOverlapTest, SerialPlanDoesNotOverlap) {
  EXPECT_FALSE(overlaps(serial_plan({"signal"}), std::chrono::milliseconds(300)));
}

using DeviceLostDeathTest = EngineTest;

constexpr int kReported = 42;

/// Causes a device-side assertion: a stage reads outside a tensor. After that the device is
/// unusable.
[[noreturn]] void lose_device_in_a_stage() {
  Tiny tiny;
  tiny.extra = {{"look up", [](Batch& batch) {
                   const at::Tensor& features = batch.at("features");
                   const at::Tensor far =
                       at::full({1}, 1 << 20, features.options().dtype(at::kLong));
                   if (batch.number() == 3)
                     batch.set("row", features.flatten().index_select(0, far));
                 }}};
  Context context(kDevice);
  Trainer one(tiny_pipeline(tiny), context, exact());
  const Plan plan = build_plan({{"copy"}, {"encode", "look up"}, {"train"}}, Driver::threaded, 4);
  const auto is_lost = [&] {
    try {
      one.run(plan, steps(8));
    } catch (const DeviceLost&) {
      return true;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "not reported as lost: %s\n", e.what());
    }
    return false;
  };
  const bool first = is_lost();
  std::_Exit(first && is_lost() ? kReported : 1);
}

TEST_F(DeviceLostDeathTest, RunsAfterDeviceAssertionThrowDeviceLostAndDoNotHang) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(lose_device_in_a_stage(), testing::ExitedWithCode(kReported), "");
}

using CublasDeathTest = EngineTest;

/// Trains so that the first GPU work of a new thread, and of PyTorch's thread for backward(), is a
/// cuBLAS call.
[[noreturn]] void train_with_cublas_first() {
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  Context context(kDevice);
  at::manual_seed(1);
  const torch::nn::Linear linear(3 * 8 * 8, 5);
  Pipeline declared =
      pipeline(synthetic_segmentation({32, 8, 5, 1}), {4})
          .stage("encode", frozen([](Batch& batch) {
                   batch.set("features", batch.at("image").flatten(1).to(at::kFloat).div(255));
                 }))
          .train("train", linear, sgd({.lr = 0.1}),
                 custom_loss("features", [](const at::Tensor& output, const Batch&) {
                   return output.square().mean();
                 }));
  Trainer one(std::move(declared), context, exact());
  one.run(build_plan(kThreeLanes, Driver::threaded, 3), steps(4));
  const char* workspace = std::getenv("CUBLAS_WORKSPACE_CONFIG");
  std::_Exit(workspace != nullptr && std::string(workspace) == ":4096:8" ? kReported : 1);
}

TEST_F(CublasDeathTest, RunSetsWorkspaceConfigAndPrintsNoCudaContextWarning) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(train_with_cublas_first(), testing::ExitedWithCode(kReported),
              testing::Not(HasSubstr("CUDA context")));
}

class MemoryTest : public EngineTest {
 protected:
  static Tiny large() {
    Tiny tiny;
    tiny.size = 64;
    tiny.channels = 32;
    tiny.batch_size = 16;
    return tiny;
  }
};

TEST_F(MemoryTest, ReservedMemoryDoesNotGrowAfterWarmUp) {
  for (const Plan& plan :
       {serial_plan(), pipelined(3), pipelined(5), build_plan(kThreeLanes, Driver::threaded, 4)}) {
    SCOPED_TRACE(describe(plan));
    const auto one = trainer(large());
    const MemoryResult first = one->run(plan, steps(200)).memory;
    EXPECT_GT(first.reserved_after_warm_up_bytes, 0U);
    EXPECT_EQ(first.reserved_bytes, first.reserved_after_warm_up_bytes);
    EXPECT_EQ(one->run(plan, steps(100)).memory.reserved_bytes, first.reserved_bytes);
  }
}

TEST_F(MemoryTest, SecondTrainerReservesNoMoreMemory) {
  const Plan plan = pipelined();
  fresh_run(large(), plan, steps(30));
  const std::size_t first = fresh_run(large(), plan, steps(30)).memory.reserved_bytes;
  EXPECT_EQ(fresh_run(large(), plan, steps(30)).memory.reserved_bytes, first);
}

TEST_F(MemoryTest, ExtraMemoryOfPipelinedPlanMatchesPrediction) {
  Tiny tiny = large();
  tiny.batch_size = 32;
  tiny.size = 128;
  c10::cuda::CUDACachingAllocator::emptyCache();
  const std::size_t serial = fresh_run(tiny, serial_plan(), steps(30)).memory.reserved_bytes;
  c10::cuda::CUDACachingAllocator::emptyCache();
  const MemoryResult memory = fresh_run(tiny, pipelined(), steps(30)).memory;
  const auto extra = static_cast<double>(memory.reserved_bytes) - static_cast<double>(serial);
  const auto predicted = static_cast<double>(memory.predicted_extra_bytes);
  std::printf("extra memory: predicted %.1f MiB, measured %.1f MiB\n", predicted / (1 << 20),
              extra / (1 << 20));
  // The allocator's blocks have 2 or 20 MiB, so each of two lanes may have one more or less.
  EXPECT_NEAR(predicted, extra, 0.05 * extra + 2 * 20 * (1 << 20));
}

TEST_F(MemoryTest, OutOfMemoryErrorSuggestsBatchSizeThatFits) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  fresh_run({}, serial_plan(), steps(2));  // PyTorch creates its allocator with the first tensor
  std::size_t free = 0, total = 0;
  cuda::check_cuda(cudaMemGetInfo(&free, &total));
  allocator::emptyCache();
  const auto held = static_cast<double>(allocator::getDeviceStats(0).reserved_bytes[0].current);
  Tiny tiny = large();
  tiny.size = 128;
  tiny.batch_size = 256;
  tiny.samples = 512;
  allocator::setMemoryFraction((held + 1e9) / static_cast<double>(total), 0);
  const std::string message = thrown_by([&] { fresh_run(tiny, pipelined(), steps(12)); });
  std::printf("%s\n", message.c_str());
  std::smatch fits;
  const bool told =
      std::regex_search(message, fits, std::regex("A batch size of ([0-9]+) would fit"));
  EXPECT_THAT(message,
              AllOf(StartsWith("Error: "), HasSubstr("out of device memory. The plan needs")));
  EXPECT_TRUE(told);
  if (told) {
    allocator::emptyCache();
    tiny.batch_size = std::stoul(fits[1]);
    EXPECT_EQ(thrown_by([&] { fresh_run(tiny, pipelined(), steps(12)); }), "nothing");
    // The suggestion must not be much too small either.
    allocator::emptyCache();
    EXPECT_GE(tiny.batch_size, 8U);
  }
  allocator::setMemoryFraction(1, 0);
}

TEST_F(MemoryTest, FailedTrialBatchesAfterOutOfMemoryLeaveStateUnchanged) {
  Tiny tiny;
  tiny.noisy = true;
  bool full = false;
  const auto fill = [] { throw c10::OutOfMemoryError({}, "CUDA out of memory"); };
  tiny.extra = {{"check", [&](Batch& batch) {
                   if (full && batch.number() == 5) fill();
                 }}};
  tiny.loss = [&](const at::Tensor& output, const Batch&) {
    if (output.size(0) != static_cast<std::int64_t>(Tiny().batch_size)) fill();
    return output.square().mean();
  };
  const std::uint64_t digest = fresh_run(tiny, serial_plan({"check"}), steps(12)).digest;
  const auto one = trainer(tiny);
  full = true;
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan({"check"}), steps(12)); }),
              AllOf(StartsWith("Error: stage 'check' at step 5: out of device memory."),
                    HasSubstr("Not even a batch of 3 fits")));
  full = false;
  EXPECT_EQ(one->run(serial_plan({"check"}), steps(12 - one->position())).digest, digest);
}

TEST_F(MemoryTest, StageErrorInTrialBatchStillReportsOutOfMemory) {
  Tiny tiny;
  bool full = false;
  tiny.loss = [&full](const at::Tensor&, const Batch&) -> at::Tensor {
    if (full) throw std::runtime_error("not with this batch");
    full = true;
    throw c10::OutOfMemoryError({}, "CUDA out of memory");
  };
  EXPECT_THAT(thrown_by([&] { fresh_run(tiny, serial_plan(), steps(2)); }),
              AllOf(StartsWith("Error: "), HasSubstr("out of device memory. Remedy: use")));
}

}  // namespace
}  // namespace slipstream::test
