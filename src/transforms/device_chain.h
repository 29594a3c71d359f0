#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// A crop without padding or a resize of images of different sizes, in the layout in which a device
/// runs it. The part of an image that it reads is stored at the top left of a canvas, which has one
/// size for all images, and the rest is 0. A part that is larger than the canvas is resized on the
/// host first.
struct OnCanvas {
  AnyOp op;  ///< the operation on canvases; its parameters are a DrawnCrop
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Returns how a device runs `op`, or no value for other operations. The canvas of a crop has the
/// size of its output, that of a resize twice the height and width.
std::optional<OnCanvas> on_canvas(const AnyOp& op);

/// The end of a chain that runs on whole batches on the device. Its random parameters are generated
/// on the host, with the same keys as in a chain on the host, into one block of bytes per sample,
/// which is copied with the batch. So where an operation runs never changes a bit. Immutable, hence
/// thread-safe.
class DeviceChain {
 public:
  /// An operation in a container (containers.h) and the position of its parameters. They are
  /// generated for the same image as those of the container, with the keys that the container uses.
  struct Contained {
    NamedOp named;
    std::size_t drawn_offset_bytes;    ///< inside a sample's block, a multiple of 16
    std::vector<Contained> contained;  ///< if it is a container, too
  };

  /// One operation and the position of its parameters.
  struct Step {
    NamedOp named;
    std::size_t drawn_offset_bytes;  ///< inside a sample's block, a multiple of 16
    /// Shape, before this operation, of the first image that it touches, else of the first field;
    /// no value if it touches none.
    std::optional<Shape> drawn_for;
    std::vector<FieldSpec> before;     ///< all fields before this operation
    std::vector<Contained> contained;  ///< if it is a container
  };

  /// `operations` are in order; the first has index `first` in the whole chain. `fields` describe a
  /// sample as the batch holds it; their shapes are fixed. `has_canvas` means that the fields that
  /// the first operation touches hold canvases. Throws Refused as the operations do, naming the
  /// transform.
  /// REQUIRES: has_canvas is false or on_canvas(operations.front()) has a value
  DeviceChain(std::vector<NamedOp> operations, std::uint32_t first, std::vector<FieldSpec> fields,
              bool has_canvas = false);

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<FieldSpec>& inputs() const { return inputs_; }
  const std::vector<FieldSpec>& outputs() const { return outputs_; }

  /// Returns the first operation as declared if there are canvases, else nullptr.
  const NamedOp* before_canvas() const { return before_canvas_ ? &*before_canvas_ : nullptr; }
  /// Generates the crop of before_canvas() for an image of `shape`. Throws what the operation
  /// throws, naming the transform.
  DrawnCrop draw_crop(RandomKey key, const Shape& shape) const;

  /// Size of a sample's block, a multiple of 16; at least 16.
  std::size_t drawn_bytes() const { return drawn_bytes_; }
  /// Writes a sample's complete block to `to`, which is aligned to 16. `key` is the sample's; its
  /// operation is ignored. `canvas` is the part of its canvas that the first operation takes, if
  /// there is one. Throws what the operations throw.
  void draw(RandomKey key, std::byte* to, const DrawnCrop* canvas = nullptr) const;

  /// Moves one sample's boxes in place, as the device moves its images, with the parameters in
  /// `drawn`. The host processes boxes completely: the device receives their final values. `crop`
  /// is the result of draw_crop() for that sample's image, if there is a canvas.
  void move_boxes(const std::byte* drawn, const MutableArray& boxes,
                  const DrawnCrop* crop = nullptr) const;

  /// CPU implementation for field `field` of one sample: applies the operations one after the
  /// other, with the parameters in `drawn`. `values` holds the field as the batch does, and
  /// receives the result; `spare` is temporary memory. Throws Error.
  /// REQUIRES: the field does not hold boxes
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
