#include <cstdlib>
#include <cstring>
#include <string>

#include "features/feature_manifest.h"
#include "features/feature_slot.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// A manifest that is accepted can be written, and reads back the same.
void check_manifest(std::string_view text) {
  FeatureManifest parsed;
  try {
    parsed = parse_feature_manifest(text);
  } catch (const Refused&) {
    return;
  }
  const FeatureManifest again = parse_feature_manifest(parsed.to_json());
  if (again.key != parsed.key || again.fields != parsed.fields || again.seed() != parsed.seed() ||
      parsed.record_bytes() == 0 || parsed.record_bytes() > std::uint64_t{1} << 40)
    std::abort();
}

/// The slots whose checksums are right are found, at their positions, and no others.
void check_slots(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kSeed = 5, kFirst = 100;
  std::vector<FeatureSlot> slots(size / sizeof(FeatureSlot) + 1);
  std::memcpy(slots.data(), data, size);
  std::size_t valid = 0;
  for (std::size_t i = 0; i < size / sizeof(FeatureSlot); ++i) {
    // An odd version leaves the checksum of the input.
    if (slots[i].entry.version % 2 == 0)
      slots[i].check = slots[i].expected_check(kSeed, kFirst + i);
    valid += slots[i].check == slots[i].expected_check(kSeed, kFirst + i) ? 1 : 0;
  }
  const auto bytes = std::as_bytes(std::span(slots)).first(size);
  const std::vector<PlacedFeatureSlot> found = parse_feature_slots(bytes, kFirst, kSeed);
  if (found.size() != valid) std::abort();
  for (const auto& [slot, position] : found)
    if (slot.entry != slots[position - kFirst].entry) std::abort();
}

}  // namespace
}  // namespace slipstream

/// Input: a byte that chooses the file, then its content.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0)
    slipstream::check_manifest({reinterpret_cast<const char*>(data) + 1, size - 1});
  else
    slipstream::check_slots(data + 1, size - 1);
  return 0;
}
