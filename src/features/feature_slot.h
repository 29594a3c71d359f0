#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slipstream {

/// Identifies a record of a key.
struct FeatureEntry {
  std::uint64_t sample = 0;   ///< digest of the sample
  std::uint64_t version = 0;  ///< which of the augmented versions of the sample
  bool operator==(const FeatureEntry&) const = default;
};

/// One entry of an index file. The slot at position p describes record p of the record file.
struct FeatureSlot {
  FeatureEntry entry;
  std::int64_t index = 0;    ///< index of the sample in its data set, for the order of exports
  std::uint64_t digest = 0;  ///< fingerprint() of the record
  std::uint64_t check = 0;   ///< checksum of the slot, its position and the key

  /// Computes the checksum of this slot. `seed` identifies the key and the size of its records, so
  /// that a slot of another key is never valid.
  std::uint64_t expected_check(std::uint64_t seed, std::uint64_t position) const;
};
static_assert(sizeof(FeatureSlot) == 40);

struct PlacedFeatureSlot {
  FeatureSlot slot;
  std::uint64_t position = 0;
};

/// Returns the valid slots among `bytes`, a part of an index file that starts with the slot at
/// position `first`. Slots that are damaged, and an incomplete one at the end, are left out.
std::vector<PlacedFeatureSlot> parse_feature_slots(std::span<const std::byte> bytes,
                                                   std::uint64_t first, std::uint64_t seed);

}  // namespace slipstream
