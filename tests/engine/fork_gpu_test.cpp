#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <chrono>

#include "core/fork.h"
#include "core/patience.h"
#include "cuda/cuda.h"
#include "engine/context_parts.h"
#include "engine/current_lane.h"
#include "engine/delays.h"
#include "engine/forked.h"
#include "engine/gpu_flag.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

class ForkGpuTest : public EngineTest {
 protected:
  static const Plan& plan() {
    static const Plan one = build_plan(kThreeLanes, Driver::threaded, 4);
    return one;
  }
};

TEST_F(ForkGpuTest, ReservedMemoryDoesNotGrowInAnyForkMode) {
  for (const ForkMode mode : {ForkMode::streams, ForkMode::one_stream, ForkMode::automatic})
    for (const bool nested : {false, true}) {
      SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)));
      Forked forked;
      forked.mode = mode;
      forked.nested = nested;
      forked.size = 64;
      forked.batch_size = 32;
      Trainer one(forked_pipeline(forked), context(), exact());
      const MemoryResult first = one.run(plan(), steps(400)).memory;
      EXPECT_GT(first.reserved_after_warm_up_bytes, 0U);
      EXPECT_EQ(first.reserved_bytes, first.reserved_after_warm_up_bytes);
      EXPECT_EQ(one.run(plan(), steps(200)).memory.reserved_bytes, first.reserved_bytes);
    }
}

TEST_F(ForkGpuTest, EveryBranchIsIdleWhenARunReturnsOrThrows) {
  std::uint64_t calls = 0;
  Forked forked;
  forked.in_a_branch = [&](const at::Tensor& y) {
    if (calls++ == 5) throw std::runtime_error("no luck");
    return y;
  };
  std::vector<cudaStream_t> streams;
  ForkProbe probe;
  probe.delay = [&](Lane& branch, bool) {
    streams.push_back(dynamic_cast<cuda::CudaLane&>(branch).stream().get());
    delay_lane(branch, 3000);
  };
  RunHooks hooks;
  hooks.fork_probe = &probe;
  Trainer one(forked_pipeline(forked), context(), exact());
  const Plan serial = build_plan({{"copy", "encode", "train"}}, Driver::interleaved, 1);
  EXPECT_EQ(thrown_by([&] { run_with(one, serial, steps(8), hooks); }),
            "Error: stage 'train' at step 5: no luck");
  for (cudaStream_t stream : streams) EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  run_with(one, serial, steps(8), hooks);
  EXPECT_FALSE(streams.empty());
  for (cudaStream_t stream : streams) EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST_F(ForkGpuTest, ForwardOnAnotherStreamThrows) {
  const CurrentLane current(context(), get_lane(context(), "train", 2));
  ForkJoin fork(std::vector<ModuleRef>{torch::nn::Linear(3, 2)}, ForkMode::streams);
  fork->to(c10::Device(kDevice));
  const at::Tensor x = at::ones({2, 3}, at::TensorOptions(c10::Device(kDevice)));
  EXPECT_EQ(fork->forward(x).size(1), 2);
  const c10::cuda::CUDAStreamGuard other(c10::cuda::getStreamFromPool());
  EXPECT_THAT(thrown_by([&] { fork->forward(x); }),
              testing::StartsWith("Error: ForkJoin: the current stream is not its stage's stream"));
}

TEST_F(ForkGpuTest, CudaGraphReplayOfBranchesMatchesForward) {
  const at::NoGradGuard no_gradients;
  const CurrentLane current(context(), get_lane(context(), "train", 2));
  ForkJoin fork(std::vector<ModuleRef>{torch::nn::Linear(64, 64), torch::nn::Linear(64, 64)},
                ForkMode::streams);
  fork->to(c10::Device(kDevice));
  at::Tensor x = at::zeros({64, 64}, at::TensorOptions(c10::Device(kDevice)));
  // the first call loads kernels and creates streams, which a capture cannot contain
  fork->forward(x);
  at::cuda::CUDAGraph graph;
  graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  const at::Tensor captured = fork->forward(x);
  graph.capture_end();
  for (int turn = 0; turn < 3; ++turn) {
    x.normal_();
    graph.replay();
    EXPECT_TRUE(same_bits(captured, fork->forward(x)));
  }
}

struct SignalImpl : torch::nn::Module {
  explicit SignalImpl(std::function<void()> function) : call(std::move(function)) {}
  at::Tensor forward(const at::Tensor& x) {
    call();
    return x.mul(2);
  }
  std::function<void()> call;
};
TORCH_MODULE(Signal);

/// The first branch ends on the device only after the second, which is called later, has begun.
class ForkOverlapTest : public ForkGpuTest {
 protected:
  bool overlaps(ForkMode mode, std::chrono::milliseconds patience) {
    Flag flag;
    std::uint32_t step = 0;
    std::function<void()> await = [] {}, write = [] {};
    ForkJoin fork(std::vector<ModuleRef>{Signal([&] { await(); }), Signal([&] { write(); })}, mode);
    Tiny tiny;
    tiny.extra = {{"fork", [&](Batch& batch) {
                     ++step;
                     batch.set("forked", fork->forward(batch.at("features")));
                   }}};
    const Plan serial = serial_plan({"fork"});
    // loads kernels and allocates memory, which may wait for the device
    fresh_run(tiny, serial, steps(4));
    await = [&] { flag.await(step); };
    write = [&] { flag.write(step); };
    const Watchdog watchdog(flag, patience);
    fresh_run(tiny, serial, steps(10));
    return !watchdog.has_released();
  }
};

TEST_F(ForkOverlapTest, BranchesOnStreamsRunConcurrently) {
  EXPECT_TRUE(overlaps(ForkMode::streams, kPatience));
}

TEST_F(ForkOverlapTest, BranchesOnOneStreamDoNotRunConcurrently) {
  EXPECT_FALSE(overlaps(ForkMode::one_stream, std::chrono::milliseconds(300)));
}

}  // namespace
}  // namespace slipstream::test
