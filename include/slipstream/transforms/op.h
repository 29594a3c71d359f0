#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/core/error.h"
#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"

namespace slipstream {

// Boxes of objects in an image are an array: float32, N x 4. A row is x1, y1, x2, y2 in pixels from
// the image's upper left corner. Pixel i of a row of pixels covers the interval from i to i + 1, so
// the box of the whole image is 0, 0, width, height. A row without an area (x2 <= x1 or y2 <= y1)
// is padding: a sample with fewer than N boxes ends with such rows.

/// How an operation moves the points of an image of height x width pixels: x, y moves to xx x + xy
/// y + dx, yx x + yy y + dy.
struct AffineMap {
  double xx = 1, xy = 0, dx = 0;
  double yx = 0, yy = 1, dy = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Writes the moved boxes of `in` to `out`. A moved box is the bounding box of the moved corners,
/// clipped to the image; it is computed in double precision and rounded once. A row that is
/// padding, or has no area left, becomes 0, 0, 0, 0. Every box keeps its row. `in` and `out` have
/// the same shape and may be the same array. Throws Error if they are not float32, N x 4.
void move_boxes(const AffineMap& map, const ConstArray& in, const MutableArray& out);

/// One worker's host memory for intermediate values, reused in every call.
using Scratch = HostArray;

/// Thrown by an operation if a sample does not fit it, for example an image smaller than a crop.
/// The sample is bad, not the operation, so the loader may skip it (OnBadSample). Whether a sample
/// fits must not depend on random parameters: a sample that was found bad once is skipped for the
/// rest of the run.
class UnfitSample : public Error {
 public:
  using Error::Error;
};

/// A function of one pixel in a form that can be compiled into GPU kernels: the source of a C++
/// type, and an object of that type.
struct DeviceFunction {
  std::string_view name;              ///< name of the type
  std::string_view definition;        ///< source of the type, in C++
  std::size_t size_bytes = 0;         ///< size of the object
  std::size_t alignment = 0;          ///< alignment of the object, in bytes
  std::vector<std::byte> fixed = {};  ///< the object's bytes; empty: draw() returns the object
};

// clang-format off
/// An operation on the fields of one sample: a plain struct of parameters with these members. A
/// user-defined struct with these members is an operation, too.
///   static constexpr std::string_view kName     its name in chains, reports and errors
///   void validate() const                       throws Refused for invalid parameters
///   bool touches(FieldKind) const               false: fields of this kind are not changed
///   FieldSpec output(const FieldSpec&) const    dtype and shape of a field after the operation;
///                                               throws Refused for an unsupported field
///   bool is_random() const                      true if draw() depends on its key
///   Drawn draw(const RandomKey&, const Shape&) const
///                                               the parameters of one sample: trivially copyable
///                                               data, aligned to 16 bytes at most. Shape is that
///                                               of the sample's first image that it touches, else
///                                               of the first field that it touches. Throws
///                                               UnfitSample
///   void apply(const Drawn&, FieldKind, ConstArray in, MutableArray out, Scratch&) const
///                                               applies the operation on the CPU. `out` has the
///                                               dtype and shape that output() gives for `in`. It
///                                               must write all of `out`, and be thread-safe
/// The members below are optional. Each allows more uses of the operation. The concept in
/// brackets says whether an operation has the member.
///   AffineMap map(const Drawn&, const Shape&) const                              [MovesPixels]
///       how it moves the pixels of an image of that shape. Boxes then move too; touches() is not
///       called for them. An operation without this member does not change boxes. With boxes in the
///       sample it is refused if it changes the size of an image.
///   bool moves_pixels() const                                                    [MayMovePixels]
///       false if this object of the type has no map() after all
///   Region region(const Drawn&) const                                            [ReadsRegion]
///   Drawn within(const Drawn&, const Window&) const
///       the part of an image that apply() reads, and the parameters with which apply() takes an
///       array that holds only that Window of the image. If the operation is the first of a
///       chain, only that part of the image, and a margin around it, is decoded.
///   std::int64_t reduction(const Drawn&) const                                   [Shrinks]
///       the largest integer, at least 1, by which that part may be downscaled before the
///       operation. If DecodeOptions::scaled allows it, images are decoded at 1 / 2, 1 / 4 or
///       1 / 8 of their size, and within() gets the reduction in its Window.
///   bool only_resizes() const                                                    [MayOnlyResize]
///       true if all it does is resize the region that it reads (all of the image,
///       unless it ReadsRegion) to the size of output(), as an antialiased Resize does. It can
///       then run on a GPU instead.
///   void make(const Drawn&, FieldKind, ConstArray in, HostArray& out) const      [FindsShape]
///       replaces apply() if the shape of the result depends on the sample. output() then
///       gives the result's dtype, and -1 for sizes that may differ. Such an operation gets no
///       index in the keys of a chain (RandomKey::operation), so the random numbers of the others
///       are the same with and without it.
///   DeviceFunction device_function() const                                       [HasDeviceFunction]
///       the pixel function that it applies to every pixel of images, if it does nothing else,
///       as PixelOp and DrawnPixelOp (pixel_op.h) do. It can then run on a GPU instead.
///   std::optional<AnyOp> for_evaluation() const                                  [IsEvaluated]
///       what replaces a random operation when a model is evaluated: one that is not random, or
///       std::nullopt to remove it. The result has the dtype and shape of output().
///       Without this member, a pipeline with the operation cannot be evaluated while the
///       operation is random.
// clang-format on
template <typename T>
concept Operation = std::copyable<T> &&
    requires(const T& op, FieldKind kind, const FieldSpec& spec, const RandomKey& key,
             const Shape& shape, ConstArray in, MutableArray out, Scratch& scratch) {
  { T::kName } -> std::convertible_to<std::string_view>;
  op.validate();
  { op.touches(kind) } -> std::same_as<bool>;
  { op.output(spec) } -> std::same_as<FieldSpec>;
  { op.is_random() } -> std::same_as<bool>;
  op.apply(op.draw(key, shape), kind, in, out, scratch);
  requires std::is_trivially_copyable_v<decltype(op.draw(key, shape))>;
};

/// An operation over whole batches (batch_ops.h). A chain holds it like any other operation, but it
/// does not change single samples. Functions that process single samples refuse it or skip it.
template <typename T>
concept BatchOperation = requires(const T& op) {
  requires T::kIsOverBatch;
  { T::kName } -> std::convertible_to<std::string_view>;
  op.validate();
};

struct DecodedPart;
struct SyntheticCost;

namespace detail {
class OpModel;
class OpCost;
}  // namespace detail

/// Holds an operation of any type. It is an immutable value; copies share the operation. All
/// functions are thread-safe.
class AnyOp {
 public:
  template <typename T>
  requires(!std::same_as<T, AnyOp> && Operation<T>) AnyOp(T op);
  template <BatchOperation T>
  AnyOp(T op);

  /// Returns the operation as an object of type T, or nullptr if it is of another type.
  template <typename T>
  const T* get_if() const;

  /// The operation's kName.
  std::string_view name() const;
  /// Throws Refused for invalid parameters.
  void validate() const;
  /// Returns true if it changes fields of this kind. For boxes: if it MovesPixels.
  bool touches(FieldKind kind) const;
  /// Returns dtype and shape of the field `in` after the operation. Throws Refused for a field that
  /// the operation cannot process.
  FieldSpec output(const FieldSpec& in) const;
  /// Returns true if draw() depends on its key.
  bool is_random() const;

  /// Returns true if it is a BatchOperation.
  bool is_over_batch() const;
  /// Returns true if it is an operation that ReadsRegion.
  bool reads_region() const;
  /// Returns true if it is an operation that FindsShape.
  bool finds_shape() const;
  /// Returns true if it is an operation that MayOnlyResize and its only_resizes() is true.
  bool only_resizes() const;
  /// Returns the operation to apply when a model is evaluated: this one unless it is random, else
  /// the result of its for_evaluation(); no value means that none is applied. Throws Refused for a
  /// random operation without that member, and if its for_evaluation() is random too.
  std::optional<AnyOp> for_evaluation() const;
  /// Returns its pixel function, or no value unless it HasDeviceFunction.
  std::optional<DeviceFunction> device_function() const;

  /// Returns the part that it reads of an image of `shape` (all of it, unless it reads_region()),
  /// and the number by which that part may be downscaled (1 unless it Shrinks). Throws what the
  /// operation's draw() throws.
  Window window(const RandomKey& key, const Shape& shape) const;
  /// Returns the number of bytes that draw() writes: the size of the operation's Drawn, or 0 if
  /// that type is empty.
  std::size_t drawn_bytes() const;
  /// Generates one sample's parameters for an image of `shape` and writes them to `to`, which holds
  /// drawn_bytes() bytes and is aligned to 16 bytes. Throws what the operation's draw() throws.
  void draw(const RandomKey& key, const Shape& shape, std::byte* to) const;
  /// Returns how it moves the pixels of an image of `shape`, with parameters that draw() wrote for
  /// that shape, or no value unless it MovesPixels.
  std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const;
  /// Applies the operation to one field of a kind other than boxes, on the CPU, with parameters
  /// that draw() wrote. `out` has the dtype and shape of output().
  void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;

  /// Generates the parameters of `sample` and applies them to every field that the operation
  /// touches. `specs` describe the fields. `spare` has one array per field; results are written
  /// there and swapped with the sample's arrays. `part` is nullptr if the fields are complete;
  /// otherwise it says which parts of the images they hold, decoded for the window() of this key,
  /// and which fields are missing. Throws what the operation throws, such as UnfitSample.
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part = nullptr) const;

 private:
  friend AnyOp with_cost(AnyOp op, const SyntheticCost& cost);

  std::shared_ptr<const detail::OpModel> self_;
  std::shared_ptr<const detail::OpCost> cost_;  ///< synthetic cost per sample; nullptr for none
};

/// Returns the fields after `op`. Throws Refused if its output() does, for fields of different
/// sizes that must be moved together, and for boxes that are not float32, N x 4, or that cannot be
/// moved along.
std::vector<FieldSpec> fields_after(const AnyOp& op, std::vector<FieldSpec> fields);

/// An operation and the name of its step in reports and errors.
struct NamedOp {
  std::string name;
  AnyOp op;
};

/// Returns the fields after all operations of `chain`. For an operation with invalid parameters, or
/// one that fields_after() refuses, adds "transform 'NAME': REASON" to `problems` and continues
/// with the fields before it.
std::vector<FieldSpec> fields_after(const std::vector<NamedOp>& chain,
                                    std::vector<FieldSpec> fields,
                                    std::vector<std::string>& problems);

/// Returns the number that identifies the operation at `index` of a chain in its random keys
/// (RandomKey::operation).
std::size_t key_number(const std::vector<NamedOp>& chain, std::size_t index);

}  // namespace slipstream

#include "slipstream/transforms/detail/op_model.h"
