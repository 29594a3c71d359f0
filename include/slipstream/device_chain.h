#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slipstream/op.h"

namespace slipstream {

/// The end of a chain, done to whole batches on the device. Its random parameters are drawn on the
/// host, with the keys that they have anywhere, into one block of bytes a sample, which travels
/// with the batch: so where an operation runs never changes a bit. Immutable.
class DeviceChain {
 public:
  /// One operation, and how it finds its parameters.
  struct Step {
    NamedOp named;
    std::size_t drawn_offset_bytes;  ///< within a sample's block, a multiple of 16
    /// The shape before it of the first image that it touches, else of the first field; none where
    /// it touches none.
    std::optional<Shape> drawn_for;
    std::vector<FieldSpec> before;  ///< all fields
  };

  /// `operations`: in order; the first is number `first` of the whole chain. `fields`: of a sample,
  /// as the batch holds them; their shapes are fixed. Throws Refused as the operations do, naming
  /// the transform.
  DeviceChain(const std::vector<NamedOp>& operations, std::uint32_t first,
              std::vector<FieldSpec> fields);

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<FieldSpec>& inputs() const { return inputs_; }
  const std::vector<FieldSpec>& outputs() const { return outputs_; }

  /// Of a sample's block, a multiple of 16; at least 16.
  std::size_t drawn_bytes() const { return drawn_bytes_; }
  /// Writes a sample's block to `to`, aligned to 16: all of it. `key`: of the sample; its operation
  /// does not matter. Throws what the operations throw.
  void draw(RandomKey key, std::byte* to) const;

  /// Does to one sample's boxes what the device does to its images: with the parameters in `drawn`,
  /// in place. Boxes are the host's all the way: they reach the device as they are at the end.
  void move_boxes(const std::byte* drawn, const MutableArray& boxes) const;

  /// The CPU form for field `field` of one sample: the operations one after the other, with the
  /// parameters in `drawn`. `values` holds the field as the batch does, and afterwards the result;
  /// `spare` is memory. Throws Error. REQUIRES: the field is no boxes
  void apply(const std::byte* drawn, std::size_t field, HostArray& values, HostArray& spare,
             Scratch& scratch) const;

 private:
  std::uint32_t first_;
  std::vector<FieldSpec> inputs_;
  std::vector<FieldSpec> outputs_;
  std::vector<Step> steps_;
  std::size_t drawn_bytes_ = 0;
};

}  // namespace slipstream
