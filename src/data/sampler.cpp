#include "slipstream/sampler.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "slipstream/error.h"
#include "slipstream/philox.h"

namespace slipstream {
namespace {

constexpr unsigned kRounds = 4;
constexpr unsigned kMinHalfBits = 4;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

Sampler::Sampler(std::uint64_t samples, bool shuffle, std::uint64_t seed)
    : samples_(samples),
      shuffle_(shuffle),
      // Keeps the permutation's keys apart from those of RandomKey.
      seed_(~seed),
      half_bits_(
          std::max(kMinHalfBits, (static_cast<unsigned>(std::bit_width(samples - 1)) + 1) / 2)) {
  ensure(samples > 0, "a sampler needs a sample");
}

std::uint64_t Sampler::at(std::uint32_t epoch, std::uint64_t position) const {
  if (!shuffle_) return position;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t index = position;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (unsigned round = 0; round < kRounds; ++round) {
      const PhiloxBlock drawn = philox({low(right), round, epoch, 0}, {low(seed_), high(seed_)});
      left = std::exchange(right, left ^ (drawn[0] & mask));
    }
    index = left << half_bits_ | right;
  } while (index >= samples_);
  return index;
}

}  // namespace slipstream
