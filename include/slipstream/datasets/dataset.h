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

/// What happens with a bad sample: one that cannot be read, decoded or put into a batch, or that
/// does not fit an operation (UnfitSample).
enum class OnBadSample : std::uint8_t {
  stop,  ///< the run ends with an error that names the sample
  /// The next good sample in the rank's order of that epoch replaces it, and so is used twice. All
  /// other samples keep their positions. So batches stay full, and any step can be found without
  /// reading the ones before.
  skip
};

/// One bad sample that was skipped.
struct SkippedSample {
  std::uint64_t sample = 0;  ///< its index in the data set
  std::string message;       ///< step, name and what was wrong with it
};

/// The bad samples that were skipped.
struct SkippedSamples {
  std::uint64_t replacements = 0;      ///< number of times that another sample replaced a bad one
  std::vector<SkippedSample> samples;  ///< each once, sorted by index
  /// The samples, sorted by index, that were used although the decoder warned of damage in their
  /// files (DecodeOptions::strict). If only a part of an image is decoded, damage after that part
  /// is not noticed.
  std::vector<SkippedSample> tolerated = {};

  /// Adds the samples of another part of the same work.
  void add(const SkippedSamples& other);
};

/// A map-style data set: samples are read by index. All functions must be thread-safe. A
/// user-defined data set needs only size() and read().
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Returns the number of samples.
  virtual std::size_t size() const = 0;

  /// Fills `out.fields` with sample `index` as it is stored: one field for each FieldSpec of
  /// fields(), in the same order; encoded fields hold the bytes of a file. All fields are in host
  /// memory, and the memory of `out` is reused. Blocks until the sample is read. Throws Error for a
  /// sample that cannot be read.
  /// REQUIRES: index < size()
  virtual void read(std::size_t index, Sample& out) const = 0;

  /// Like read(), for one position of a run. The loader reads through this function. `key`
  /// identifies the position; its sample is the index in the loader's data set, of which this one
  /// may be a part. The default calls read(). Override it if read() would generate random values,
  /// such as augmentation, and generate them from `key` only. Caches keep the first result.
  virtual void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const;

  /// Returns the fields that every sample has. The default reads sample 0 and names its fields
  /// "field0", "field1", ... with the kind `other` and the shapes of that sample. It throws Error
  /// for an empty data set.
  virtual std::vector<FieldSpec> fields() const;

  /// Replaces the file bytes of an encoded field by its values. `spare` is memory that it may use.
  /// The default decodes every format of decode_rgb(), which it detects by content: images to
  /// uint8, height x width x 3, and masks to class indices, uint8, height x width. It throws Error
  /// for a file that cannot be decoded, and for encoded fields of other kinds.
  virtual void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
                      HostArray& spare) const;

  /// Returns true if the loader may decode images without calling decode(): only the part that the
  /// first transform reads (DecodeOptions::partial). False by default, because an override of
  /// decode() may do anything. Return true if decode() processes images as its default does.
  virtual bool decodes_by_default() const { return false; }

  /// Returns a number that identifies this data set and changes with its content. A cache on disk
  /// belongs to the data set with one identity. The default is a digest of size(), fields() and
  /// every name(), and reads no more samples than fields() does. It does not notice files that
  /// change and keep their names. Override it if names are insufficient or slow.
  virtual std::uint64_t identity() const;

  /// Returns the names of the label's classes by index. Empty if they are unknown, which is the
  /// default.
  virtual const std::vector<std::string>& class_names() const;

  /// Returns remarks on data that can be used but look odd, for example about skipped files or a
  /// single class. Each remark is a sentence for the user who opens the data set. There are none by
  /// default.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// Returns the name of sample `index` in messages, for example its file.
  virtual std::string name(std::size_t index) const { return "sample " + std::to_string(index); }
};

/// Opens the images DIR/images/NAME.jpg (or another extension of image_folder()) with the masks
/// DIR/masks/NAME.png, sorted by NAME. The fields are "image" (encoded, uint8, height x width x 3)
/// and "label" (encoded mask of class indices below `classes`, uint8, height x width). Throws
/// Refused for a folder that does not exist, and Error for an empty one, an image without a mask, a
/// mask without an image, or two images with one NAME. read() throws Error if the headers of mask
/// and image give different sizes.
std::shared_ptr<const Dataset> segmentation_folder(const std::filesystem::path& dir,
                                                   std::int64_t classes);

/// Options of synthetic data.
struct SyntheticOptions {
  std::size_t samples = 1024;  ///< number of samples
  std::int64_t size = 256;     ///< height and width, pixels
  std::int64_t classes = 10;   ///< number of classes
  std::uint64_t seed = 1;      ///< seed of the random values
};

/// Returns random images "image" (uint8, size x size x 3) with random masks "label" (uint8, size x
/// size, class indices below `classes`), generated with Philox from the index of each sample. There
/// is nothing to decode, and nothing to learn.
std::shared_ptr<const Dataset> synthetic_segmentation(const SyntheticOptions& options);
/// Returns random images "image" (uint8, size x size x 3), each with one random class "label"
/// (uint8, scalar), generated with Philox from the index of each sample.
std::shared_ptr<const Dataset> synthetic_classification(const SyntheticOptions& options);

}  // namespace slipstream
