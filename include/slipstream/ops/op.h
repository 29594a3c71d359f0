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
#include "slipstream/ops/boxes.h"

namespace slipstream {

/// Scratch memory of one worker, reused from call to call.
using Scratch = HostArray;

/// What an operation throws when one sample does not fit it, such as an image smaller than a crop:
/// the sample is bad, not the operation, so the loader may skip it (OnBadSample). Whether a sample
/// fits must not depend on what is drawn: once found bad, it is left out for the rest of the run.
class UnfitSample : public Error {
 public:
  using Error::Error;
};

/// A function of one pixel, as a GPU compiles it into its kernels.
struct DeviceFunction {
  std::string_view name;        ///< of its type
  std::string_view definition;  ///< of that type, in C++
  std::size_t size_bytes = 0;   ///< of an object of it
  std::size_t alignment = 0;
  std::vector<std::byte> fixed = {};  ///< the object; empty: what draw() returns is one
};

// clang-format off
/// An operation on the fields of one sample: a plain struct of parameters with these members. A
/// user's own operation is any struct that has them.
///   static constexpr std::string_view kName     its name in chains, reports and errors
///   void validate() const                       throws Refused for parameters that make no sense
///   bool touches(FieldKind) const               false: fields of this kind pass unchanged
///   FieldSpec output(const FieldSpec&) const    dtype and shape after it; throws Refused when it
///                                               cannot take such a field
///   bool is_random() const                      whether draw() depends on its key
///   Drawn draw(const RandomKey&, const Shape&) const
///                                               the parameters of one sample, as trivially copyable
///                                               data, aligned to 16 at most; Shape is that of the
///                                               sample's first image (or first touched field);
///                                               throws UnfitSample
///   void apply(const Drawn&, FieldKind, ConstArray in, MutableArray out, Scratch&) const
///                                               the CPU form; `out` has output()'s shape for `in`;
///                                               must write all of it; thread-safe
/// It may have more members, each of which lets more be done with it (the concept in brackets tells
/// whether it has them):
///   AffineMap map(const Drawn&, const Shape&) const                              [MovesPixels]
///       where it moves the pixels of an image of that shape: boxes then follow (touches() is not
///       asked about them). One without it leaves boxes as they are, and is refused beside them
///       where it changes an image's size.
///   Region region(const Drawn&) const                                            [ReadsRegion]
///   Drawn within(const Drawn&, const Window&) const
///       the part of each image that apply() reads, and what it then takes for that window alone:
///       as the first of a chain, it is given that part, and little around it, decoded without the
///       rest.
///   std::int64_t reduction(const Drawn&) const                                   [Shrinks]
///       by how much that part may be shrunk before it, at most; at least 1: where
///       DecodeOptions::scaled allows it, its images are decoded at 1 / 2, 1 / 4 or 1 / 8 of their
///       size, and within() is told.
///   bool only_resizes() const                                                    [MayOnlyResize]
///       whether it does no more to an image than to resize the region that it reads (all of it,
///       unless it ReadsRegion) to output()'s size, as an antialiased Resize does: a GPU can then do
///       the same.
///   DeviceFunction device_function() const                                       [HasDeviceFunction]
///       it applies this pixel function to every pixel of images and does nothing else, as PixelOp
///       and DrawnPixelOp (pixel_op.h) do: a GPU can then do the same.
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

/// An operation over whole batches (batch_ops.h). A chain holds it like any other, but a sample
/// alone passes it unchanged: whoever takes samples alone refuses it or leaves it out.
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

/// Any Operation, by value; copies share it (operations are immutable).
class AnyOp {
 public:
  template <typename T>
  requires(!std::same_as<T, AnyOp> && Operation<T>) AnyOp(T op);
  template <BatchOperation T>
  AnyOp(T op);

  /// The operation itself, without what with_cost() added, or nullptr where it is of another type.
  template <typename T>
  const T* get_if() const;

  std::string_view name() const;
  void validate() const;
  bool touches(FieldKind kind) const;
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;

  /// Whether it is a BatchOperation.
  bool is_over_batch() const;
  /// Whether it is an operation that ReadsRegion.
  bool reads_region() const;
  /// Whether it only resizes (MayOnlyResize).
  bool only_resizes() const;
  /// Nothing, unless it HasDeviceFunction.
  std::optional<DeviceFunction> device_function() const;

  /// The part that it reads of an image of `shape` (all of it, unless it reads_region()), and by
  /// how much that may be shrunk (1 unless it Shrinks). Throws what draw() throws.
  Window window(const RandomKey& key, const Shape& shape) const;
  /// Bytes of what draw() writes: the operation's Drawn, nothing where that is empty.
  std::size_t drawn_bytes() const;
  /// One sample's parameters for an image of `shape`, as the operation's draw() gives them, into
  /// `to` (aligned to 16). Throws what that throws.
  void draw(const RandomKey& key, const Shape& shape, std::byte* to) const;
  /// Where it moves the pixels of an image of `shape`, with parameters that draw() wrote for that;
  /// nothing unless it MovesPixels, that is where it touches boxes.
  std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const;
  /// The CPU form for one field that is no boxes, with parameters that draw() wrote.
  void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;

  /// Draws this sample's parameters and applies them to every touched field of `sample`, through
  /// `spare` (one array per field, swapped with the sample's). `specs` describe the fields' kinds.
  /// `part`: nullptr, or what the fields hold that were decoded for the window() of this key, and
  /// which are not there.
  /// Throws Error.
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part = nullptr) const;

 private:
  friend AnyOp with_cost(AnyOp op, const SyntheticCost& cost);

  std::shared_ptr<const detail::OpModel> self_;
  std::shared_ptr<const detail::OpCost> cost_;  ///< of each sample; nullptr: none
};

/// What fields are after `op`. Throws Refused as its output() does, and where there are boxes that
/// are not f32, N x 4, or cannot follow what it does.
std::vector<FieldSpec> fields_after(const AnyOp& op, std::vector<FieldSpec> fields);

struct NamedOp {
  std::string name;
  AnyOp op;
};

}  // namespace slipstream

#include "slipstream/ops/detail/op_model.h"
