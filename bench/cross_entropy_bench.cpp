// Throughput of the project's kernels, compared with a device-to-device copy of the same number of
// bytes. The buffers together exceed the L2 cache several times, unless a name says "warm".
#include "cuda/cross_entropy_kernel.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "device_bench.h"

namespace slipstream::bench {
namespace {

using cuda::check_cuda;
using cuda::CudaLane;
using cuda::LogitLayout;
using cuda::LogitType;

constexpr int kBurst = 20;
constexpr double kHeadStartUs = 300;  // the host enqueues a burst before it starts
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kPixels = 256 * 256;

struct DeviceMemory {
  explicit DeviceMemory(std::size_t bytes) {
    check_cuda(cudaMalloc(&pointer, bytes));
    // 0x3c3c is 0.0115 as float32 and bf16, and nearly 1 as f16: usual values in every type.
    check_cuda(cudaMemset(pointer, 0x3c, bytes));
    check_cuda(cudaDeviceSynchronize());
  }
  ~DeviceMemory() { static_cast<void>(cudaFree(pointer)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(pointer) + offset; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(pointer);
  }

  void* pointer = nullptr;
};

// Times `launch(i)`, i = 0, 1, ..., on the device, in bursts between two marks; `bytes` is the
// number read and written.
void time_on_device(benchmark::State& state, std::size_t bytes,
                    const std::function<void(std::size_t, cuda::StreamView)>& launch) {
  CudaLane lane("bench", 0, 0);
  const auto begin = lane.make_mark();
  const auto end = lane.make_mark();
  launch(0, lane.stream());
  std::size_t next = 1;
  while (state.KeepRunningBatch(kBurst)) {
    cuda::delay_async(kHeadStartUs, lane.stream());
    lane.record(*begin);
    for (int i = 0; i < kBurst; ++i) launch(next++, lane.stream());
    lane.record(*end);
    lane.synchronize();
    state.SetIterationTime(end->seconds_after(*begin));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

// Returns the number of buffers of `bytes` that together do not fit into any cache.
std::size_t count_copies(std::size_t bytes, std::size_t l2_bytes, bool is_warm) {
  return is_warm ? 1 : std::max<std::size_t>(2, 4 * l2_bytes / bytes + 1);
}

struct CrossEntropyCase {
  std::int64_t images;
  bool channels_last;
  LogitType type;
  bool is_warm;
  std::size_t l2_bytes;
};

void cross_entropy(benchmark::State& state, const CrossEntropyCase& what) {
  LogitLayout layout{what.images, kClasses, kPixels, kClasses * kPixels, 1, kClasses};
  if (!what.channels_last) {
    layout.cls = kPixels;
    layout.pixel = 1;
  }
  const std::size_t total = static_cast<std::size_t>(what.images * kPixels);
  const std::size_t bytes = total * kClasses * (what.type == LogitType::f32 ? 4 : 2);
  const std::size_t copies = count_copies(2 * bytes + total, what.l2_bytes, what.is_warm);
  const DeviceMemory logits(copies * bytes);
  const DeviceMemory gradient(copies * bytes);
  const DeviceMemory labels(copies * total);
  const DeviceMemory scratch(cuda::cross_entropy_scratch_bytes(layout));
  const DeviceMemory loss(sizeof(float));
  const DeviceMemory correct(sizeof(std::int64_t));
  check_cuda(cudaMemset(labels.pointer, 7, copies * total));
  check_cuda(cudaDeviceSynchronize());
  time_on_device(state, 2 * bytes + total, [&](std::size_t i, cuda::StreamView stream) {
    const std::size_t k = i % copies;
    cuda::cross_entropy_async(logits.at(k * bytes), what.type, layout, labels.at(k * total),
                              cuda::LabelType::u8, 1, gradient.at(k * bytes), loss.as<float>(),
                              correct.as<std::int64_t>(), scratch.pointer, stream);
  });
}

void fingerprint(benchmark::State& state, std::size_t l2_bytes) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t copies = count_copies(bytes, l2_bytes, false);
  const DeviceMemory data(copies * bytes);
  const DeviceMemory digest(sizeof(std::uint64_t));
  time_on_device(state, bytes, [&](std::size_t i, cuda::StreamView stream) {
    cuda::fingerprint_async(data.at(i % copies * bytes), bytes, digest.as<std::uint64_t>(), stream);
  });
}

// Copies `range` / 2 bytes, so that `range` bytes are read and written in all.
void copy(benchmark::State& state, std::size_t l2_bytes) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) / 2;
  const std::size_t copies = count_copies(2 * bytes, l2_bytes, false);
  const DeviceMemory from(copies * bytes);
  const DeviceMemory to(copies * bytes);
  time_on_device(state, 2 * bytes, [&](std::size_t i, cuda::StreamView stream) {
    const std::size_t offset = i % copies * bytes;
    cuda::copy_async(to.at(offset), from.at(offset), bytes, stream);
  });
}

std::string case_name(const CrossEntropyCase& what) {
  const std::string type = what.type == LogitType::f32 ? "f32" : "bf16";
  return "cross_entropy/" + type + (what.channels_last ? "/channels_last" : "/planar") +
         "/images:" + std::to_string(what.images) + (what.is_warm ? "/warm" : "");
}

void register_all(const cuda::DeviceInfo& device) {
  using benchmark::RegisterBenchmark;
  const std::size_t l2_bytes = device.l2_bytes;
  for (const std::int64_t images : {8, 32, 128}) {
    for (const LogitType type : {LogitType::f32, LogitType::bf16}) {
      for (const auto& [channels_last, is_warm] :
           std::vector<std::pair<bool, bool>>{{true, false}, {false, false}, {true, true}}) {
        const CrossEntropyCase what{images, channels_last, type, is_warm, l2_bytes};
        RegisterBenchmark(case_name(what).c_str(), cross_entropy, what)->UseManualTime();
      }
    }
  }
  for (const std::int64_t bytes : {1 << 20, 42 << 20, 672 << 20}) {
    RegisterBenchmark("fingerprint", fingerprint, l2_bytes)->Arg(bytes)->UseManualTime();
    RegisterBenchmark("copy", copy, l2_bytes)->Arg(bytes)->UseManualTime();
  }
}

}  // namespace
}  // namespace slipstream::bench

int main(int argc, char** argv) {
  return slipstream::bench::main_on_device(argc, argv, slipstream::bench::register_all);
}
