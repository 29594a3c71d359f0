#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// A crop without padding or a resize of images that differ in size, as a device does it: what it
/// reads of an image lies at the top left of a canvas, one size for all, and the rest is 0. What is
/// larger than the canvas was resized on the host, and lies there.
struct OnCanvas {
  AnyOp op;  ///< for canvases; its parameters are a DrawnCrop
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Nothing for other operations. The canvas of a crop is as large as what it makes, that of a
/// resize has twice the height and width.
std::optional<OnCanvas> on_canvas(const AnyOp& op);

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
  /// as the batch holds them; their shapes are fixed. `has_canvas`: the fields that the first
  /// operation touches hold canvases. Throws Refused as the operations do, naming the transform.
  /// REQUIRES: has_canvas is false or on_canvas(operations.front()) is there
  DeviceChain(std::vector<NamedOp> operations, std::uint32_t first, std::vector<FieldSpec> fields,
              bool has_canvas = false);

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<FieldSpec>& inputs() const { return inputs_; }
  const std::vector<FieldSpec>& outputs() const { return outputs_; }

  /// The first operation, as it is declared, where there are canvases; else nullptr.
  const NamedOp* before_canvas() const { return before_canvas_ ? &*before_canvas_ : nullptr; }
  /// What that does to an image of `shape`. Throws what it throws, naming the transform.
  DrawnCrop draw_crop(RandomKey key, const Shape& shape) const;

  /// Of a sample's block, a multiple of 16; at least 16.
  std::size_t drawn_bytes() const { return drawn_bytes_; }
  /// Writes a sample's block to `to`, aligned to 16: all of it. `key`: of the sample; its operation
  /// does not matter. `canvas`: what of its canvas the first operation takes, where there is one.
  /// Throws what the operations throw.
  void draw(RandomKey key, std::byte* to, const DrawnCrop* canvas = nullptr) const;

  /// Does to one sample's boxes what the device does to its images: with the parameters in `drawn`,
  /// in place. Boxes are the host's all the way: they reach the device as they are at the end.
  /// `crop`: draw_crop() of that sample's image, where there is a canvas.
  void move_boxes(const std::byte* drawn, const MutableArray& boxes,
                  const DrawnCrop* crop = nullptr) const;

  /// The CPU form for field `field` of one sample: the operations one after the other, with the
  /// parameters in `drawn`. `values` holds the field as the batch does, and afterwards the result;
  /// `spare` is memory. Throws Error. REQUIRES: the field is no boxes
  void apply(const std::byte* drawn, std::size_t field, HostArray& values, HostArray& spare,
             Scratch& scratch) const;

 private:
  std::uint32_t first_;
  std::optional<NamedOp> before_canvas_;
  std::vector<FieldSpec> inputs_;
  std::vector<FieldSpec> outputs_;
  std::vector<Step> steps_;
  std::size_t drawn_bytes_ = 0;
};

}  // namespace slipstream
