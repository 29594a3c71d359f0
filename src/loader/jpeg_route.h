#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/jpeg_slot.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Returns the reasons why images cannot travel as Wire::jpeg, each with its remedy.
std::vector<std::string> problems_of_jpeg(const Dataset& dataset,
                                          const std::vector<NamedOp>& transforms);

/// Returns the size of a slot for files of up to `most_bytes` and for the finished image.
std::size_t jpeg_slot_bytes(const FieldSpec& image, std::size_t most_bytes);

/// The operations that the device applies to the JPEG files of one field. Created from transforms
/// for which problems_of_jpeg() is empty.
class JpegRoute {
 public:
  JpegRoute(const std::vector<NamedOp>& transforms, const SlabLayout& layout);

  bool is_taken() const { return field_.has_value(); }
  std::size_t field() const { return *field_; }

  /// Returns the head of the slot for a file that can be transferred; no value for any other file.
  /// `key` is the sample's key for operation 0.
  std::optional<JpegSlot> slot_for(std::span<const std::byte> file, RandomKey key) const;

 private:
  const std::vector<NamedOp>& transforms_;
  std::optional<std::size_t> field_;
  std::size_t most_bytes_ = 0;
  std::size_t resize_ = 0;  ///< index of the transform that crops or resizes
};

}  // namespace slipstream
