#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// What becomes of a sample that cannot be read, decoded or put into a batch, or does not fit an
/// operation (UnfitSample). `skip`: the next good sample of the rank's order in that epoch is taken
/// in its place, a second time; all others keep theirs. So batches stay full, and any step can be
/// found without reading the ones before.
enum class OnBadSample : std::uint8_t { stop, skip };

struct SkippedSample {
  std::uint64_t sample = 0;
  std::string message;  ///< step, name and what was wrong with it
};

struct SkippedSamples {
  std::uint64_t places = 0;            ///< how often another sample stood in
  std::vector<SkippedSample> samples;  ///< each once, by number

  /// With those of another part of the same work.
  void add(const SkippedSamples& other);
};

}  // namespace slipstream
