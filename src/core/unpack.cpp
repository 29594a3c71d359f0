#include <cstring>

#include "core/packed_field.h"

namespace slipstream {
namespace {

std::uint64_t load(const std::byte* from, std::size_t bytes) {
  // The low bytes of the word, because the hosts are little-endian.
  std::uint64_t word = 0;
  std::memcpy(&word, from, bytes);
  return word;
}

std::uint64_t packed_value(const PackedField& field, const std::byte* sample, std::size_t i) {
  const unsigned bits = bits_per_element(field.from);
  if (bits >= 8) return load(sample + i * (bits / 8), bits / 8);
  const auto byte = static_cast<unsigned>(sample[i * bits / 8]);
  return byte >> (i * bits % 8) & ((1U << bits) - 1);
}

void unpack_values(const PackedField& field, const std::byte* sample, std::byte* to) {
  const std::size_t to_bytes = bits_per_element(field.to) / 8;
  for (std::size_t i = 0; i < field.values; ++i, to += to_bytes) {
    const std::uint64_t word = expanded(field.from, field.to, packed_value(field, sample, i));
    std::memcpy(to, &word, to_bytes);
  }
}

void unpack_one_hot(const PackedField& field, const std::byte* sample, std::byte* to) {
  const std::size_t to_bytes = bits_per_element(field.to) / 8;
  const std::uint64_t one = encoded_one(field.to);
  std::memset(to, 0, field.values * field.classes * to_bytes);
  for (std::size_t i = 0; i < field.values; ++i) {
    const std::size_t place = i * field.classes + packed_value(field, sample, i);
    std::memcpy(to + place * to_bytes, &one, to_bytes);
  }
}

}  // namespace

void unpack(std::span<const PackedField> fields, std::byte* block) {
  for (const PackedField& field : fields) {
    const std::size_t sample_bytes =
        field.outputs() / field.samples * (bits_per_element(field.to) / 8);
    for (std::size_t i = 0; i < field.samples; ++i) {
      const std::byte* from = block + field.from_offset_bytes + i * field.from_sample_bytes;
      std::byte* to = block + field.to_offset_bytes + i * sample_bytes;
      field.classes == 0 ? unpack_values(field, from, to) : unpack_one_hot(field, from, to);
    }
  }
}

}  // namespace slipstream
