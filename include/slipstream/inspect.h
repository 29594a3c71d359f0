#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "slipstream/dataset.h"

namespace slipstream {

struct InspectOptions {
  unsigned threads = 0;  ///< 0: one a core
  DecodeOptions decode = {};
  std::function<bool()> stop = {};                      ///< asked before each sample
  std::function<void(std::size_t done)> progress = {};  ///< from the threads that read
};

/// One field over all good samples.
struct FieldSummary {
  FieldSpec spec;                               ///< as the data set declares it
  std::map<std::string, std::uint64_t> stored;  ///< how often as "JPEG", "PNG", "u8", ...
  std::uint64_t stored_bytes = 0;
  Shape smallest, largest;                        ///< of each dimension, once decoded
  std::map<std::int64_t, std::uint64_t> classes;  ///< of labels: samples; of masks: samples that
                                                  ///< hold the class
};

struct DamagedSample {
  std::size_t sample = 0;
  std::string name;     ///< of Dataset::name()
  std::string message;  ///< what is wrong
};

/// How many damaged samples to_text() lists.
inline constexpr std::size_t kListedSamples = 10;

struct Inspection {
  std::size_t samples = 0;    ///< in the data set
  std::size_t inspected = 0;  ///< fewer after a stop
  std::vector<FieldSummary> fields;
  std::vector<DamagedSample> damaged;  ///< by number
};

/// Reads and decodes every sample. A sample is damaged when that throws, an image has no pixels, a
/// mask another size than its image, or a class is negative or out of range.
Inspection inspect(const Dataset& dataset, const InspectOptions& options = {});

/// As text, at most kListedSamples damaged samples and sixteen classes of each field.
std::string to_text(const Inspection& inspection);

/// A PNG of the first `images` samples whose first image field can be decoded, left to right in
/// rows, each scaled to fit `cell` x `cell` pixels. Throws Error when there is none.
std::vector<std::byte> contact_sheet(const Dataset& dataset, std::size_t images = 64,
                                     std::int64_t cell = 96);

}  // namespace slipstream
