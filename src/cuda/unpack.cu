#include <algorithm>
#include <cstdint>

#include "cuda/cuda.h"

namespace slipstream::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kFieldsOfALaunch = 16;
constexpr unsigned kVectorBytes = 16;

struct Unpacking {
  PackedField fields[kFieldsOfALaunch];
  unsigned first_block[kFieldsOfALaunch + 1];
  unsigned count;
};

union Vector {
  uint4 whole;
  std::uint8_t u8[16];
  std::uint32_t u32[4];
  std::uint64_t u64[2];
};

__device__ void put(Vector& vector, unsigned i, Element to, std::uint64_t bits) {
  if (to == Element::u8) {
    vector.u8[i] = static_cast<std::uint8_t>(bits);
  } else if (to == Element::i64) {
    vector.u64[i] = bits;
  } else {
    vector.u32[i] = static_cast<std::uint32_t>(bits);
  }
}

__device__ std::uint64_t load(const std::byte* from, unsigned bytes) {
  switch (bytes) {
    case 1:
      return *reinterpret_cast<const std::uint8_t*>(from);
    case 2:
      return *reinterpret_cast<const std::uint16_t*>(from);
    case 4:
      return *reinterpret_cast<const std::uint32_t*>(from);
    default:
      return *reinterpret_cast<const std::uint64_t*>(from);
  }
}

__device__ std::uint64_t packed_value(const PackedField& field, const std::byte* from,
                                      std::size_t index) {
  const unsigned bits = bits_per_element(field.from);
  const std::size_t sample = index / field.values;
  const std::size_t bit = (index - sample * field.values) * bits;
  const std::byte* at = from + sample * field.from_sample_bytes + bit / 8;
  if (bits >= 8) return load(at, bits / 8);
  return load(at, 1) >> (bit % 8) & ((1U << bits) - 1);
}

/// Unpacks values that are contiguous: one load serves a whole vector of outputs.
template <unsigned kOutputs>
__device__ Vector in_a_row(const PackedField& field, const std::byte* from, std::size_t first) {
  const unsigned bits = bits_per_element(field.from);
  const std::uint64_t word = load(from + first * bits / 8, kOutputs * bits / 8);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  Vector vector;
#pragma unroll
  for (unsigned i = 0; i < kOutputs; ++i) {
    put(vector, i, field.to, expanded(field.from, field.to, word >> (i * bits) & mask));
  }
  return vector;
}

template <unsigned kOutputs>
__device__ Vector one_by_one(const PackedField& field, const std::byte* from, std::size_t first) {
  Vector vector{};
  const std::size_t end = field.outputs();
#pragma unroll
  for (unsigned i = 0; i < kOutputs; ++i) {
    const std::size_t output = first + i;
    if (output >= end) continue;
    if (field.classes == 0) {
      put(vector, i, field.to, expanded(field.from, field.to, packed_value(field, from, output)));
    } else if (packed_value(field, from, output / field.classes) == output % field.classes) {
      put(vector, i, field.to, encoded_one(field.to));
    }
  }
  return vector;
}

template <unsigned kOutputs>
__device__ void unpack_vector(const PackedField& field, std::byte* block, std::size_t index) {
  const std::size_t first = index * kOutputs;
  if (first >= field.outputs()) return;
  const std::byte* from = block + field.from_offset_bytes;
  // Each sample starts at a byte boundary, so samples of a fractional number of bytes have gaps.
  const bool has_gaps = field.samples > 1 && field.values * bits_per_element(field.from) % 8 != 0;
  const Vector vector = field.classes > 0 || has_gaps ? one_by_one<kOutputs>(field, from, first)
                                                      : in_a_row<kOutputs>(field, from, first);
  reinterpret_cast<uint4*>(block + field.to_offset_bytes)[index] = vector.whole;
}

__global__ void __launch_bounds__(kThreads) unpack_kernel(Unpacking all, std::byte* block) {
  unsigned f = 0;
  // One launch serves several fields, to save launches. Each block finds its field by its index.
  while (blockIdx.x >= all.first_block[f + 1]) ++f;
  const PackedField& field = all.fields[f];
  const std::size_t index = std::size_t{blockIdx.x - all.first_block[f]} * kThreads + threadIdx.x;
  switch (bits_per_element(field.to)) {
    case 8:
      return unpack_vector<16>(field, block, index);
    case 32:
      return unpack_vector<4>(field, block, index);
    default:
      return unpack_vector<2>(field, block, index);
  }
}

void launch(std::span<const PackedField> fields, std::byte* block, cudaStream_t stream) {
  Unpacking all{};
  for (const PackedField& field : fields) {
    const std::size_t vectors = field.to_bytes() / kVectorBytes;
    const std::size_t blocks = (vectors + kThreads - 1) / kThreads;
    all.fields[all.count] = field;
    all.first_block[all.count + 1] = all.first_block[all.count] + static_cast<unsigned>(blocks);
    ++all.count;
  }
  const unsigned blocks = all.first_block[all.count];
  if (blocks == 0) return;
  unpack_kernel<<<blocks, kThreads, 0, stream>>>(all, block);
  check_cuda(cudaGetLastError());
}

}  // namespace

void unpack_async(std::span<const PackedField> fields, std::byte* block, StreamView stream) {
  while (!fields.empty()) {
    const std::size_t count = std::min(fields.size(), kFieldsOfALaunch);
    launch(fields.first(count), block, stream.get());
    fields = fields.subspan(count);
  }
}

}  // namespace slipstream::cuda
