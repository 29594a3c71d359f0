#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// What becomes of a bad sample: one that cannot be read, decoded or put into a batch, or does not
/// fit an operation (UnfitSample).
enum class OnBadSample : std::uint8_t {
  stop,  ///< an error ends the run and names the sample
  /// The next good sample of the rank's order in that epoch takes its place, and is so taken a
  /// second time. All others keep their places. So batches stay full, and any step can be found
  /// without reading the ones before.
  skip
};

/// One bad sample that was skipped.
struct SkippedSample {
  std::uint64_t sample = 0;  ///< its number in the data set
  std::string message;       ///< step, name and what was wrong with it
};

/// The bad samples that were skipped.
struct SkippedSamples {
  std::uint64_t places = 0;            ///< how often another sample took the place of a bad one
  std::vector<SkippedSample> samples;  ///< each once, by number

  /// Adds those of another part of the same work.
  void add(const SkippedSamples& other);
};

}  // namespace slipstream
