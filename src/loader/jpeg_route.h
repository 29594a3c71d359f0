#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/jpeg_slot.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// What keeps images from traveling as Wire::jpeg, each with its remedy.
std::vector<std::string> problems_of_jpeg(const Dataset& dataset,
                                          const std::vector<NamedOp>& transforms);

/// A slot's size, for files of up to `most_bytes` and for the finished image.
std::size_t jpeg_slot_bytes(const FieldSpec& image, std::size_t most_bytes);

/// What is done on the device to the files of one field, by transforms that have no
/// problems_of_jpeg().
class JpegRoute {
 public:
  JpegRoute(const std::vector<NamedOp>& transforms, const SlabLayout& layout);

  bool is_taken() const { return field_.has_value(); }
  std::size_t field() const { return *field_; }

  /// The slot's head for a file that can travel; nothing for all others. `key` is the sample's for
  /// operation 0.
  std::optional<JpegSlot> slot_for(std::span<const std::byte> file, RandomKey key) const;

 private:
  const std::vector<NamedOp>& transforms_;
  std::optional<std::size_t> field_;
  std::size_t most_bytes_ = 0;
  std::size_t resize_ = 0;  ///< the transform that crops or resizes
};

}  // namespace slipstream
