#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"
#include "tools/sheet.h"

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
  std::map<std::string, std::uint64_t> stored;  ///< how often as "JPEG", "PNG", "uint8", ...
  std::uint64_t stored_bytes = 0;
  /// Images with pixels through which DecodeOptions::background is seen.
  std::uint64_t transparent = 0;
  Shape smallest, largest;                        ///< of each dimension, once decoded
  std::map<std::int64_t, std::uint64_t> classes;  ///< of labels: samples; of masks: samples that
                                                  ///< hold the class
  std::vector<std::string> class_names;           ///< of "label", by number; empty: unknown
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
  std::vector<std::string> remarks;    ///< of Dataset::remarks(), a single class, transparency
  /// The class of each sample, of "label"; -1: bad or not read. Empty where samples have none.
  std::vector<std::int64_t> labels;
};

/// Reads and decodes every sample. A sample is listed as damaged when it cannot be used as it is:
/// when that throws (for an image that is too large, too), an image has no pixels, a mask another
/// size than its image, or a class is negative or out of range.
Inspection inspect(const Dataset& dataset, const InspectOptions& options = {});

/// As text, at most kListedSamples bad samples and sixteen classes of each field, with their names
/// where these are known.
std::string to_text(const Inspection& inspection);

struct ContactSheetOptions {
  std::size_t images = 64;
  std::int64_t cell = 96;            ///< height and width of a tile with its border, pixels
  Rgb background = {255, 255, 255};  ///< of the sheet, and behind transparent pixels
};

/// Images of the good samples in `found`, the result of inspect() for `dataset`: spread evenly over
/// the classes of "label" and within each, one class after the other, or over the data set where
/// samples have no class. Each is the sample's first image field with the class's name or number as
/// its caption. Images that are not 8-bit RGB are left out; throws Error when none are left.
Sheet contact_sheet(const Dataset& dataset, const Inspection& found,
                    const ContactSheetOptions& options = {});

}  // namespace slipstream
