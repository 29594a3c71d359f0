#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"
#include "slipstream/core/array.h"

namespace slipstream {

/// A map-style data set. Its functions may be called from several threads at once. A user's own
/// data set needs size() and read() alone.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;

  /// Fills `out.fields` (one per FieldSpec of fields(), in their order, reusing their memory) with
  /// sample `index` as it is stored: encoded fields as file bytes. Throws Error.
  virtual void read(std::size_t index, Sample& out) const = 0;

  /// What every sample holds. By default sample 0 is read: its fields become "field0", "field1",
  /// ... of kind `other` with its shapes.
  virtual std::vector<FieldSpec> fields() const;

  /// Replaces the file bytes of an encoded field by its values. By default images are decoded to
  /// RGB and masks to class numbers, by content.
  virtual void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
                      HostArray& spare) const;

  /// Whether images may be decoded without decode(): to RGB by content, and no more of them than
  /// the first transform reads (DecodeOptions::partial). False by default, for an override of
  /// decode() may do anything: return true where images are decoded as above.
  virtual bool decodes_by_default() const { return false; }

  /// Tells this data set from others, and from itself once it was changed, without reading samples:
  /// what a cache of it is bound to. By default a digest of size(), fields() and every name(), so
  /// that files which change behind their names go unnoticed: override it where names say too
  /// little, or take long.
  virtual std::uint64_t identity() const;

  /// Names of the label's classes by number; empty where they are unknown. By default empty.
  virtual const std::vector<std::string>& class_names() const;

  /// What is odd about the data, though they can be used: files that were passed over, a single
  /// class. A sentence each, for whoever opens them. By default none.
  virtual std::vector<std::string> remarks() const { return {}; }

  /// Names sample `index` in messages, for example by its file.
  virtual std::string name(std::size_t index) const { return "sample " + std::to_string(index); }
};

/// DIR/images/NAME.jpg|jpeg|png with DIR/masks/NAME.png: fields "image" (height x width x 3) and
/// "label" (mask of class numbers, height x width), sorted by NAME.
/// Throws Refused for a folder that does not exist; Error for an empty one, an image without a
/// mask, a mask without an image, or two images of one NAME; reading a sample throws where mask
/// and image differ in size (both headers are compared).
std::shared_ptr<const Dataset> segmentation_folder(const std::filesystem::path& dir,
                                                   std::int64_t classes);

struct SyntheticOptions {
  std::size_t samples = 1024;
  std::int64_t size = 256;  ///< height and width, pixels
  std::int64_t classes = 10;
  std::uint64_t seed = 1;
};

/// Random uint8 images (size x size x 3) and random label maps below `classes`, drawn from Philox
/// by sample number: nothing to learn, nothing to decode.
std::shared_ptr<const Dataset> synthetic_segmentation(const SyntheticOptions& options);
/// The same with one random class an image instead of a map.
std::shared_ptr<const Dataset> synthetic_classification(const SyntheticOptions& options);

}  // namespace slipstream
