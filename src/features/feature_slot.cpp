#include "features/feature_slot.h"

#include <bit>
#include <cstring>

#include "core/fingerprint.h"

namespace slipstream {

static_assert(std::endian::native == std::endian::little, "files store little-endian numbers");

std::uint64_t FeatureSlot::expected_check(std::uint64_t seed, std::uint64_t position) const {
  std::uint64_t sum = chain64(seed, position);
  for (const std::uint64_t part :
       {entry.sample, entry.version, static_cast<std::uint64_t>(index), digest})
    sum = chain64(sum, part);
  return sum;
}

std::vector<PlacedFeatureSlot> parse_feature_slots(std::span<const std::byte> bytes,
                                                   std::uint64_t first, std::uint64_t seed) {
  std::vector<PlacedFeatureSlot> found;
  const std::size_t slots = bytes.size() / sizeof(FeatureSlot);
  for (std::size_t i = 0; i < slots; ++i) {
    PlacedFeatureSlot placed{{}, first + i};
    std::memcpy(&placed.slot, bytes.data() + i * sizeof(FeatureSlot), sizeof(FeatureSlot));
    if (placed.slot.check == placed.slot.expected_check(seed, placed.position))
      found.push_back(placed);
  }
  return found;
}

}  // namespace slipstream
