// Measures what each wire format saves: the copy of its bytes from pinned memory, and the kernel
// that expands them, each timed by the device. The output has 256 MiB, whether it was copied plain
// or packed.
#include <cstring>
#include <string>

#include "core/packed_field.h"
#include "device_bench.h"

namespace slipstream::bench {
namespace {

using cuda::check_cuda;
using cuda::CudaLane;

constexpr std::size_t kSamples = 64;
constexpr std::size_t kArrivingBytes = std::size_t{256} << 20;

struct Form {
  const char* name;
  Element from, to;
  std::uint32_t classes;
};

constexpr Form kForms[] = {
    {"u8_from_1_bit", Element::u1, Element::u8, 0},
    {"u8_from_2_bits", Element::u2, Element::u8, 0},
    {"u8_from_4_bits", Element::u4, Element::u8, 0},
    {"i64_from_u16", Element::u16, Element::i64, 0},
    {"i64_from_i32", Element::i32, Element::i64, 0},
    {"f32_from_bf16", Element::bf16, Element::f32, 0},
    {"f32_from_f16", Element::f16, Element::f32, 0},
    {"f32_one_hot_of_10", Element::u8, Element::f32, 10},
};

PackedField make_field(const Form& form) {
  PackedField field{.from = form.from, .to = form.to, .classes = form.classes, .samples = kSamples};
  const std::size_t each = form.classes == 0 ? 1 : form.classes;
  field.values = kArrivingBytes / kSamples / (bits_per_element(form.to) / 8) / each / 8 * 8;
  field.from_sample_bytes = field.values * bits_per_element(form.from) / 8;
  field.to_offset_bytes = round_up(kSamples * field.from_sample_bytes, 256);
  return field;
}

/// Device memory and pinned memory of the given sizes.
struct Memory {
  explicit Memory(std::size_t device_bytes, std::size_t host_bytes) {
    check_cuda(cudaMalloc(&device, device_bytes));
    check_cuda(cudaHostAlloc(&host, host_bytes, cudaHostAllocDefault));
    check_cuda(cudaMemset(device, 0, device_bytes));
    std::memset(host, 0, host_bytes);
    check_cuda(cudaDeviceSynchronize());
  }
  ~Memory() {
    static_cast<void>(cudaFree(device));
    static_cast<void>(cudaFreeHost(host));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* device = nullptr;
  void* host = nullptr;
};

template <typename Work>
void time_on(CudaLane& lane, benchmark::State& state, const Work& work) {
  const auto begin = lane.make_mark();
  const auto end = lane.make_mark();
  for (auto _ : state) {
    lane.record(*begin);
    work();
    lane.record(*end);
    lane.synchronize();
    state.SetIterationTime(end->seconds_after(*begin));
  }
}

void copy(benchmark::State& state, std::size_t bytes) {
  CudaLane lane("copy", 0, 0);
  Memory memory(bytes, bytes);
  time_on(lane, state, [&] { cuda::copy_async(memory.device, memory.host, bytes, lane.stream()); });
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.counters["bytes"] = static_cast<double>(bytes);
}

void expand(benchmark::State& state, const PackedField& field) {
  CudaLane lane("copy", 0, 0);
  const Memory memory(field.to_offset_bytes + field.to_bytes(), 256);
  time_on(lane, state, [&] {
    cuda::unpack_async({&field, 1}, static_cast<std::byte*>(memory.device), lane.stream());
  });
  const std::size_t moved = kSamples * field.from_sample_bytes + field.to_bytes();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(moved));
}

void register_all(const cuda::DeviceInfo&) {
  const auto add = [](const std::string& name, auto function, auto argument) {
    benchmark::RegisterBenchmark(name.c_str(), function, argument)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.2);
  };
  add("copy/plain", copy, kArrivingBytes);
  for (const Form& form : kForms) {
    const PackedField field = make_field(form);
    add(std::string("copy/") + form.name, copy, kSamples * field.from_sample_bytes);
    add(std::string("expand/") + form.name, expand, field);
  }
}

}  // namespace
}  // namespace slipstream::bench

int main(int argc, char** argv) {
  return slipstream::bench::main_on_device(argc, argv, slipstream::bench::register_all);
}
