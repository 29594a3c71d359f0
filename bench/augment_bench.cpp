// Measures augmentation on the device: the kernels of a chain, on images that are already on the
// GPU. Names say "cold" if batches rotate through more memory than the L2 cache holds, and "warm"
// if the same batch is used every time.
#include <cstring>
#include <string>
#include <vector>

#include "chains.h"
#include "cuda/augment/augment.h"
#include "device_bench.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/pixel_op.h"

namespace slipstream::bench {
namespace {

using cuda::check_cuda;
using cuda::CudaLane;

constexpr std::size_t kColdBytes = std::size_t{1} << 30;

std::vector<NamedOp> without_blur() {
  std::vector<NamedOp> chain = classification_chain();
  chain.erase(chain.begin() + 4);
  return chain;
}

std::vector<NamedOp> pointwise_chain() {
  return {{"flip", RandomHorizontalFlip{0.5}}, {"normalize", normalize()}};
}

SLIPSTREAM_PIXEL_FUNCTION(Solarize, {
  float threshold;
  float operator()(float value) const { return value < threshold ? value : 1.0F - value; }
});

/// Pointwise operations with a user-defined operation between them.
std::vector<NamedOp> own_chain() {
  std::vector<NamedOp> chain = pointwise_chain();
  chain.insert(chain.begin() + 1, {"solarize", PixelOp{Solarize{0.5F}}});
  return chain;
}

std::vector<NamedOp> color_chain() {
  return {{"crop", RandomResizedCrop{224}}, {"jitter", jitter()}, {"normalize", normalize()}};
}

/// The transforms of workload W3, applied to images of 1024 x 1024.
std::vector<NamedOp> starved_chain() {
  return {{"crop", RandomCrop{256}},
          {"mask", RandomMask{0.25, true}},
          {"color", ConvertColor{}},
          {"scale", Divide{}}};
}

struct DeviceMemory {
  explicit DeviceMemory(std::size_t bytes) {
    check_cuda(cudaMalloc(&data, bytes));
    check_cuda(cudaMemset(data, 0x5b, bytes));
    check_cuda(cudaDeviceSynchronize());
  }
  ~DeviceMemory() { static_cast<void>(cudaFree(data)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data) + offset; }

  void* data = nullptr;
};

struct Work {
  std::vector<NamedOp> chain;
  std::size_t batch_size;
  AugmentOutput output;
  bool cold;
  std::int64_t side = 256;
};

void augment(benchmark::State& state, const Work& work) {
  const FieldSpec image{"image", FieldKind::image, DType::uint8, {work.side, work.side, 3}, 0};
  const DeviceChain chain(work.chain, 0, {image});
  AugmentPlan plan(chain, 0, work.output);
  plan.specialize();
  const std::size_t in = work.batch_size * image.shape.elements();
  const std::size_t out = work.batch_size * chain.outputs()[0].shape.elements() *
                          (work.output.bf16 ? 2 : sizeof(float));
  const std::size_t batches = work.cold ? kColdBytes / (in + out) + 1 : 1;
  const DeviceMemory images(batches * in), results(batches * out);
  const DeviceMemory scratch(plan.scratch_bytes(work.batch_size) + 1);
  const DeviceMemory drawn(work.batch_size * chain.drawn_bytes());
  std::vector<std::byte> blocks(work.batch_size * chain.drawn_bytes());
  for (std::size_t i = 0; i < work.batch_size; ++i) {
    chain.draw({.seed = 1, .sample = i}, &blocks[i * chain.drawn_bytes()]);
  }
  check_cuda(cudaMemcpy(drawn.data, blocks.data(), blocks.size(), cudaMemcpyHostToDevice));

  CudaLane lane("augment", 0, 0);
  const auto begin = lane.make_mark();
  const auto end = lane.make_mark();
  // The clock of a mark is too coarse to time one call.
  constexpr std::size_t kCalls = 20;
  std::size_t next = 0;
  for (auto _ : state) {
    lane.record(*begin);
    for (std::size_t i = 0; i < kCalls; ++i, next = (next + 1) % batches) {
      cuda::augment_async(plan, work.batch_size, images.at(next * in), drawn.at(0), scratch.at(0),
                          results.at(next * out), lane.stream());
    }
    lane.record(*end);
    lane.synchronize();
    state.SetIterationTime(end->seconds_after(*begin) / kCalls);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(in + out));
  state.counters["launches"] = static_cast<double>(plan.launches());
}

void register_all(const cuda::DeviceInfo&) {
  const auto add = [](const std::string& name, const Work& work) {
    benchmark::RegisterBenchmark(name.c_str(), augment, work)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.1);
  };
  for (const std::size_t batch : {8, 32, 128}) {
    const std::string size = "/" + std::to_string(batch);
    add("classification/cold" + size, {classification_chain(), batch, {}, true});
    add("without_blur/cold" + size, {without_blur(), batch, {}, true});
    add("usual/cold" + size, {usual_chain(), batch, {}, true});
    add("pointwise/cold" + size, {pointwise_chain(), batch, {}, true});
    add("own/cold" + size, {own_chain(), batch, {}, true});
    add("color/cold" + size, {color_chain(), batch, {}, true});
  }
  add("starved/cold/256", {starved_chain(), 256, {}, true, 1024});
  for (const ImageLayout layout : {ImageLayout::channels_last, ImageLayout::channels_first}) {
    const std::string name = layout == ImageLayout::channels_last ? "channels_last" : "planes";
    add("classification/" + name + "/f32/32", {classification_chain(), 32, {layout, false}, true});
    add("classification/" + name + "/bf16/32", {classification_chain(), 32, {layout, true}, true});
  }
  add("classification/warm/32", {classification_chain(), 32, {}, false});
}

}  // namespace
}  // namespace slipstream::bench

int main(int argc, char** argv) {
  return slipstream::bench::main_on_device(argc, argv, slipstream::bench::register_all);
}
