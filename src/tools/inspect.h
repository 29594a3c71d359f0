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
  unsigned threads = 0;  ///< 0: one per core
  DecodeOptions decode = {};
  std::function<bool()> stop = {};                      ///< called before each sample; true stops
  std::function<void(std::size_t done)> progress = {};  ///< called from the reading threads
};

/// Summary of one field over all good samples.
struct FieldSummary {
  FieldSpec spec;  ///< as the data set declares it
  /// Count of each format: "JPEG", "PNG", "uint8", .
  std::map<std::string, std::uint64_t> stored;
  std::uint64_t stored_bytes = 0;
  /// Number of images with pixels through which DecodeOptions::background is visible.
  std::uint64_t transparent = 0;
  Shape smallest, largest;                        ///< minimum and maximum of each decoded dimension
  std::map<std::int64_t, std::uint64_t> classes;  ///< samples per class; for masks, samples that
                                                  ///< hold the class
  std::vector<std::string> class_names;  ///< class names of "label", by index; empty if unknown
};

struct DamagedSample {
  std::size_t sample = 0;
  std::string name;     ///< Dataset::name()
  std::string message;  ///< what is wrong
};

/// Maximum number of damaged samples that to_text() lists.
inline constexpr std::size_t kListedSamples = 10;

struct Inspection {
  std::size_t samples = 0;    ///< in the data set
  std::size_t inspected = 0;  ///< fewer after a stop
  std::vector<FieldSummary> fields;
  std::vector<DamagedSample> damaged;  ///< sorted by index
  /// From Dataset::remarks(), and on a single class or transparency.
  std::vector<std::string> remarks;
  /// The class of "label" for each sample; -1 if it is bad or was not read. Empty if samples have
  /// no class.
  std::vector<std::int64_t> labels;
};

/// Reads and decodes every sample. A sample is listed as damaged if it cannot be used: reading or
/// decoding throws (also for an image that is too large), an image has no pixels, a mask has
/// another size than its image, or a class is negative or out of range.
Inspection inspect(const Dataset& dataset, const InspectOptions& options = {});

/// Formats an inspection as text, with at most kListedSamples bad samples and sixteen classes for
/// each field, with their names if known.
std::string to_text(const Inspection& inspection);

struct ContactSheetOptions {
  std::size_t images = 64;
  std::int64_t cell = 96;            ///< height and width of a tile with its border, pixels
  Rgb background = {255, 255, 255};  ///< color of the sheet, and under transparent pixels
};

/// Returns a sheet with images of the good samples in `found`, the result of inspect() for
/// `dataset`: spread evenly over the classes of "label" and inside each, one class after the other,
/// or over the data set if samples have no class. Each is the sample's first image field, with the
/// class's name or index as its caption. Images that are not 8-bit RGB are skipped; throws Error if
/// none remain.
Sheet contact_sheet(const Dataset& dataset, const Inspection& found,
                    const ContactSheetOptions& options = {});

}  // namespace slipstream
