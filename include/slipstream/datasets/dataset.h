#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"
#include "slipstream/core/array.h"
#include "slipstream/core/philox.h"

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
  std::uint64_t replacements = 0;      ///< how often another sample took the place of a bad one
  std::vector<SkippedSample> samples;  ///< each once, by number
  /// The samples, by number, that were used although the decoder warned of damage in their files
  /// (DecodeOptions::strict). Where a part of an image is decoded, damage after it is not met.
  std::vector<SkippedSample> tolerated = {};

  /// Adds those of another part of the same work.
  void add(const SkippedSamples& other);
};

/// A map-style data set: samples are read by number. Its functions may be called from several
/// threads at once. A data set of your own needs only size() and read().
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The number of samples.
  virtual std::size_t size() const = 0;

  /// Fills `out.fields` with sample `index` as it is stored: one for each FieldSpec of fields(), in
  /// their order, encoded ones as the bytes of a file. The memory of `out` is used again. Throws
  /// Error for a sample that cannot be read. REQUIRES: index < size()
  virtual void read(std::size_t index, Sample& out) const = 0;

  /// The same for one place of a run, which is how the loader reads. `key` names the place; its
  /// sample is the number in the loader's data set, of which this one may be a part. The default is
  /// read(). Override it where samples are drawn anew each time, as random augmentation in read()
  /// would, and draw from `key` alone; caches keep what was read first.
  virtual void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const;

  /// The fields that every sample has. The default reads sample 0 and names its fields "field0",
  /// "field1", ... with the kind `other` and the shapes of that sample. It throws Error for an
  /// empty data set.
  virtual std::vector<FieldSpec> fields() const;

  /// Replaces the file bytes of an encoded field by its values; `spare` is memory that it may use.
  /// The default decodes JPEG and PNG, told apart by content: images to uint8, height x width x 3,
  /// and masks to class numbers, uint8, height x width. It throws Error for a file that cannot be
  /// decoded, and for encoded fields of other kinds.
  virtual void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
                      HostArray& spare) const;

  /// Whether the loader may decode images without calling decode(): only the part that the first
  /// transform reads (DecodeOptions::partial). False by default, because an override of decode()
  /// may do anything. Return true where decode() does to images what its default does.
  virtual bool decodes_by_default() const { return false; }

  /// A number that tells this data set from others, and from itself after a change. A cache on disk
  /// belongs to the data set of one identity. The default is a digest of size(), fields() and every
  /// name(), without reading more samples than fields() does. It does not notice files that change
  /// and keep their names. Override it where names say too little, or take long.
  virtual std::uint64_t identity() const;

  /// The names of the label's classes by number; empty where they are unknown, as by default.
  virtual const std::vector<std::string>& class_names() const;

  /// What is odd about the data although they can be used, for example files that were skipped or a
  /// single class. Each remark is a sentence for whoever opens the data set. By default there are
  /// none.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// The name of sample `index` in messages, for example its file.
  virtual std::string name(std::size_t index) const { return "sample " + std::to_string(index); }
};

/// The images DIR/images/NAME.jpg (or .jpeg, .jpe, .jfif, .png, .ppm, .pgm) with the masks
/// DIR/masks/NAME.png, sorted by NAME. Its fields are "image" (encoded, uint8, height x width x 3)
/// and "label" (encoded mask of class numbers below `classes`, uint8, height x width). Throws
/// Refused for a folder that does not exist, and Error for an empty one, an image without a mask, a
/// mask without an image, or two images of one NAME. read() throws Error where mask and image
/// differ in size, by their headers.
std::shared_ptr<const Dataset> segmentation_folder(const std::filesystem::path& dir,
                                                   std::int64_t classes);

/// The form of synthetic data.
struct SyntheticOptions {
  std::size_t samples = 1024;  ///< number of samples
  std::int64_t size = 256;     ///< height and width, pixels
  std::int64_t classes = 10;   ///< number of classes
  std::uint64_t seed = 1;      ///< of the random values
};

/// Random images "image" (uint8, size x size x 3) with random masks "label" (uint8, size x size,
/// class numbers below `classes`), drawn by Philox from the number of each sample. There is nothing
/// to decode, and nothing to learn.
std::shared_ptr<const Dataset> synthetic_segmentation(const SyntheticOptions& options);
/// Random images "image" (uint8, size x size x 3) with one random class "label" (uint8, scalar)
/// each, drawn by Philox from the number of each sample.
std::shared_ptr<const Dataset> synthetic_classification(const SyntheticOptions& options);

}  // namespace slipstream
