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
// the image's upper left corner. Pixel i of a row of pixels reaches from i to i + 1, so the box of
// the whole image is 0, 0, width, height. A row without an area (x2 <= x1 or y2 <= y1) is no box: a
// sample with fewer than N boxes has such rows at the end.

/// How an operation moves the points of an image: from x, y to xx x + xy y + dx, yx x + yy y + dy
/// of an image of height x width pixels.
struct AffineMap {
  double xx = 1, xy = 0, dx = 0;
  double yx = 0, yy = 1, dy = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Writes the moved boxes of `in` to `out`. A moved box is the one around the moved corners,
/// clipped to the image; it is computed in double precision and rounded once. A row that is no box,
/// or has no area left, becomes 0, 0, 0, 0. Every box keeps its row. `in` and `out` have the same
/// shape and may be the same array. Throws Error where they are not float32, N x 4.
void move_boxes(const AffineMap& map, const ConstArray& in, const MutableArray& out);

/// Memory of one worker for intermediate values. It is used again in every call.
using Scratch = HostArray;

/// What an operation throws when a sample does not fit it, for example an image smaller than a
/// crop. The sample is bad, not the operation, so the loader may skip it (OnBadSample). Whether a
/// sample fits must not depend on what is drawn: a sample once found bad is left out for the rest
/// of the run.
class UnfitSample : public Error {
 public:
  using Error::Error;
};

/// A function of one pixel in the form that a GPU compiles into its kernels: a type in C++, and an
/// object of it.
struct DeviceFunction {
  std::string_view name;              ///< of the type
  std::string_view definition;        ///< of the type, in C++
  std::size_t size_bytes = 0;         ///< of the object
  std::size_t alignment = 0;          ///< of the object, bytes
  std::vector<std::byte> fixed = {};  ///< the object's bytes; empty: draw() returns the object
};

// clang-format off
/// An operation on the fields of one sample: a plain struct of parameters with these members. Any
/// struct of a program of your own that has them is an operation, too.
///   static constexpr std::string_view kName     its name in chains, reports and errors
///   void validate() const                       throws Refused for parameters that make no sense
///   bool touches(FieldKind) const               false: fields of this kind pass unchanged
///   FieldSpec output(const FieldSpec&) const    dtype and shape of a field after the operation;
///                                               throws Refused for a field that it cannot take
///   bool is_random() const                      whether draw() depends on its key
///   Drawn draw(const RandomKey&, const Shape&) const
///                                               the parameters of one sample: trivially copyable
///                                               data, aligned to 16 bytes at most. Shape is that
///                                               of the sample's first image that it touches, else
///                                               of the first field that it touches. Throws
///                                               UnfitSample
///   void apply(const Drawn&, FieldKind, ConstArray in, MutableArray out, Scratch&) const
///                                               does the operation on the CPU. `out` has the dtype
///                                               and shape that output() gives for `in`. It must
///                                               write all of `out`, and be thread-safe
/// The members below are optional. Each lets more be done with the operation. The concept in
/// brackets says whether an operation has the member.
///   AffineMap map(const Drawn&, const Shape&) const                              [MovesPixels]
///       how it moves the pixels of an image of that shape. Boxes then follow; touches() is not
///       asked about them. An operation without this member leaves boxes as they are. Beside boxes
///       it is refused where it changes the size of an image.
///   Region region(const Drawn&) const                                            [ReadsRegion]
///   Drawn within(const Drawn&, const Window&) const
///       the part of an image that apply() reads, and the parameters with which apply() takes an
///       array that holds only that Window of the image. Where the operation is the first of a
///       chain, no more of the image is decoded than that part and a little around it.
///   std::int64_t reduction(const Drawn&) const                                   [Shrinks]
///       the largest whole number, at least 1, by which that part may be shrunk before the
///       operation. Where DecodeOptions::scaled allows it, images are decoded at 1 / 2, 1 / 4 or
///       1 / 8 of their size, and within() is told.
///   bool only_resizes() const                                                    [MayOnlyResize]
///       whether it does nothing to an image but resize the region that it reads (all of the image,
///       unless it ReadsRegion) to the size of output(), as an antialiased Resize does. A GPU can
///       then do it instead.
///   void make(const Drawn&, FieldKind, ConstArray in, HostArray& out) const      [FindsShape]
///       does apply() where the shape of the result is known only once it is there. output() then
///       gives the result's dtype, and -1 for what may differ. Such an operation has no number of
///       its own in the keys of a chain (RandomKey::operation), so the others draw what they would
///       draw without it.
///   DeviceFunction device_function() const                                       [HasDeviceFunction]
///       the pixel function that it applies to every pixel of images, where it does nothing else,
///       as PixelOp and DrawnPixelOp (pixel_op.h) do. A GPU can then do it instead.
///   std::optional<AnyOp> for_evaluation() const                                  [IsEvaluated]
///       what a random operation does when a model is evaluated: an operation that is not random, or
///       std::nullopt where it then does nothing. The result has the dtype and shape of output().
///       Without this member, a pipeline that has the operation cannot be evaluated while the
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

/// An operation over whole batches (batch_ops.h). A chain holds it like any other operation, but a
/// single sample passes it unchanged. Functions that handle single samples refuse it or leave it
/// out.
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

/// An operation of any type. It is a value and cannot be changed; copies share it. Its functions
/// may be called from several threads at once.
class AnyOp {
 public:
  template <typename T>
  requires(!std::same_as<T, AnyOp> && Operation<T>) AnyOp(T op);
  template <BatchOperation T>
  AnyOp(T op);

  /// The operation as an object of its own type, or nullptr where it is of another type.
  template <typename T>
  const T* get_if() const;

  /// The operation's kName.
  std::string_view name() const;
  /// Throws Refused for parameters that make no sense.
  void validate() const;
  /// Whether it changes fields of this kind. For boxes: whether it MovesPixels.
  bool touches(FieldKind kind) const;
  /// The field `in` after the operation. Throws Refused for a field that it cannot take.
  FieldSpec output(const FieldSpec& in) const;
  /// Whether draw() depends on its key.
  bool is_random() const;

  /// Whether it is a BatchOperation.
  bool is_over_batch() const;
  /// Whether it is an operation that ReadsRegion.
  bool reads_region() const;
  /// Whether it is an operation that FindsShape.
  bool finds_shape() const;
  /// Whether it is an operation that MayOnlyResize, and only resizes.
  bool only_resizes() const;
  /// The operation to apply when a model is evaluated: this one unless it is random, else what its
  /// for_evaluation() returns; no value: none is applied. Throws Refused for a random operation
  /// without that member, and for one whose for_evaluation() is random too.
  std::optional<AnyOp> for_evaluation() const;
  /// Its pixel function; no value unless it HasDeviceFunction.
  std::optional<DeviceFunction> device_function() const;

  /// The part that it reads of an image of `shape` (all of it, unless it reads_region()), and the
  /// number by which that part may be shrunk (1 unless it Shrinks). Throws what the operation's
  /// draw() throws.
  Window window(const RandomKey& key, const Shape& shape) const;
  /// The number of bytes that draw() writes: the size of the operation's Drawn, 0 where that is
  /// empty.
  std::size_t drawn_bytes() const;
  /// Draws one sample's parameters for an image of `shape` and writes them to `to`, which has room
  /// for drawn_bytes() and is aligned to 16 bytes. Throws what the operation's draw() throws.
  void draw(const RandomKey& key, const Shape& shape, std::byte* to) const;
  /// How it moves the pixels of an image of `shape`, with parameters that draw() wrote for that
  /// shape; no value unless it MovesPixels.
  std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const;
  /// Does the operation to one field of a kind other than boxes, on the CPU, with parameters that
  /// draw() wrote. `out` has the dtype and shape of output().
  void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;

  /// Draws the parameters of `sample` and applies them to every field that the operation touches.
  /// `specs` describe the fields. `spare` has one array for each field; results are written there
  /// and swapped with the sample's arrays. `part` is nullptr where the fields are whole; otherwise
  /// it says which parts of the images they hold, decoded for the window() of this key, and which
  /// fields are missing. Throws what the operation throws: UnfitSample where the sample does not
  /// fit it.
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part = nullptr) const;

 private:
  friend AnyOp with_cost(AnyOp op, const SyntheticCost& cost);

  std::shared_ptr<const detail::OpModel> self_;
  std::shared_ptr<const detail::OpCost> cost_;  ///< of each sample; nullptr: none
};

/// The fields after `op`. Throws Refused where its output() does, for fields of different sizes
/// that must be moved together, and for boxes that are not float32, N x 4, or that cannot follow
/// what it does.
std::vector<FieldSpec> fields_after(const AnyOp& op, std::vector<FieldSpec> fields);

/// An operation and the name that its step has in reports and errors.
struct NamedOp {
  std::string name;
  AnyOp op;
};

/// The number of the operation at `index` of a chain in the keys of its draws.
std::size_t key_number(const std::vector<NamedOp>& chain, std::size_t index);

}  // namespace slipstream

#include "slipstream/transforms/detail/op_model.h"
