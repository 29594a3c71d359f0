#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "slipstream/transforms/op.h"

// Implements how AnyOp (op.h) holds operations of any type. Programs need only the concepts that
// op.h names.
namespace slipstream {

template <typename T>
concept MovesPixels = Operation<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape) {
  { op.map(op.draw(key, shape), shape) } -> std::same_as<AffineMap>;
};

template <typename T>
concept MayMovePixels = MovesPixels<T> && requires(const T& op) {
  { op.moves_pixels() } -> std::same_as<bool>;
};

template <typename T>
concept ReadsRegion = Operation<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape, const Window& window) {
  { op.region(op.draw(key, shape)) } -> std::same_as<Region>;
  { op.within(op.draw(key, shape), window) } -> std::same_as<decltype(op.draw(key, shape))>;
};

template <typename T>
concept Shrinks = ReadsRegion<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape) {
  { op.reduction(op.draw(key, shape)) } -> std::same_as<std::int64_t>;
};

template <typename T>
concept MayOnlyResize = Operation<T> && requires(const T& op) {
  { op.only_resizes() } -> std::same_as<bool>;
};

template <typename T>
concept FindsShape = Operation<T> && requires(const T& op, const RandomKey& key, const Shape& shape,
                                              FieldKind kind, ConstArray in, HostArray& out) {
  op.make(op.draw(key, shape), kind, in, out);
};

template <typename T>
concept HasDeviceFunction = Operation<T> && requires(const T& op) {
  { op.device_function() } -> std::same_as<DeviceFunction>;
};

template <typename T>
concept IsEvaluated = Operation<T> && requires(const T& op) {
  { op.for_evaluation() } -> std::same_as<std::optional<AnyOp>>;
};

/// Says which parts of a sample's images are present, if the images hold little more than the next
/// operation reads, or are missing because the operation runs elsewhere.
struct DecodedPart {
  Shape whole;    ///< shape of the image that parameters are generated for
  Window wanted;  ///< the requested part of that image
  /// The part that each field holds; no value means all.
  std::vector<std::optional<Window>> fields;
  std::vector<bool> elsewhere = {};  ///< which fields are missing; empty if none
};

namespace detail {

/// Properties that all operations of one type share.
struct OpTraits {
  std::string_view name;
  std::size_t drawn_bytes = 0;
  bool is_over_batch = false;
  bool reads_region = false;
  bool finds_shape = false;
  bool is_evaluated = false;
};

/// Device equivalents of an operation.
struct OpOnDevice {
  bool only_resizes = false;
  std::optional<DeviceFunction> function = {};
};

/// Interface of an operation of any type. AnyOp documents its functions.
class OpModel {
 public:
  explicit OpModel(const OpTraits& of_type) : traits(of_type) {}
  virtual ~OpModel() = default;

  virtual void validate() const = 0;
  virtual bool touches(FieldKind kind) const = 0;
  virtual FieldSpec output(const FieldSpec& in) const = 0;
  virtual bool is_random() const = 0;
  virtual OpOnDevice on_device() const = 0;
  virtual std::optional<AnyOp> for_evaluation() const = 0;
  virtual Window window(const RandomKey& key, const Shape& shape) const = 0;
  virtual void draw(const RandomKey& key, const Shape& shape, std::byte* to) const = 0;
  virtual std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const = 0;
  virtual void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
                     Scratch& scratch) const = 0;
  virtual void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
                     std::vector<HostArray>& spare, Scratch& scratch,
                     const DecodedPart* part) const = 0;

  const OpTraits traits;
};

/// True for a PassedBySamples.
template <typename T>
concept PassedBySample = requires {
  T::kIsPassed;
};

template <Operation T>
class OpHolder final : public OpModel {
 public:
  using Drawn = decltype(std::declval<const T&>().draw(RandomKey{}, Shape{}));
  static_assert(alignof(Drawn) <= 16, "the parameters of one sample are aligned to 16 at most");
  static constexpr std::size_t kDrawnBytes = std::is_empty_v<Drawn> ? 0 : sizeof(Drawn);

  explicit OpHolder(T value)
      : OpModel({T::kName, kDrawnBytes, PassedBySample<T>, ReadsRegion<T>, FindsShape<T>,
                 IsEvaluated<T>}),
        op(std::move(value)) {}

  void validate() const override { op.validate(); }
  bool touches(FieldKind kind) const override {
    return kind == FieldKind::boxes ? moves_pixels() : op.touches(kind);
  }
  FieldSpec output(const FieldSpec& in) const override { return op.output(in); }
  bool is_random() const override { return op.is_random(); }

  OpOnDevice on_device() const override {
    OpOnDevice result;
    if constexpr (MayOnlyResize<T>) result.only_resizes = op.only_resizes();
    if constexpr (HasDeviceFunction<T>) result.function = op.device_function();
    return result;
  }
  std::optional<AnyOp> for_evaluation() const override {
    if constexpr (IsEvaluated<T>) return op.for_evaluation();
    return std::nullopt;
  }
  Window window(const RandomKey& key, const Shape& shape) const override {
    Window window{{0, 0, shape[0], shape[1]}};
    if constexpr (ReadsRegion<T>) {
      const auto drawn = op.draw(key, shape);
      window.region = op.region(drawn);
      if constexpr (Shrinks<T>) window.reduction = op.reduction(drawn);
    }
    return window;
  }

  void draw(const RandomKey& key, const Shape& shape, std::byte* to) const override {
    const Drawn drawn = op.draw(key, shape);
    std::memcpy(to, &drawn, kDrawnBytes);
  }
  std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const override {
    if constexpr (MovesPixels<T>) {
      if (moves_pixels()) return op.map(drawn_at(drawn), shape);
    }
    return std::nullopt;
  }
  void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const override {
    op.apply(drawn_at(drawn), kind, in, out, scratch);
  }

  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part) const override {
    const auto shape = part ? std::optional(part->whole) : reference_shape(specs, sample);
    if (!shape) return;
    const auto drawn = op.draw(key, *shape);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const bool is_elsewhere = part && !part->elsewhere.empty() && part->elsewhere[i];
      if (is_elsewhere || !touches(specs[i].kind)) continue;
      HostArray& array = sample.fields[i].array;
      const ConstArray in = array.view();
      if constexpr (MovesPixels<T>) {
        if (specs[i].kind == FieldKind::boxes) {
          move_boxes(op.map(drawn, *shape), in, array.span());
          continue;
        }
      }
      if constexpr (FindsShape<T>) {
        op.make(drawn, specs[i].kind, in, spare[i]);
        std::swap(array, spare[i]);
        continue;
      }
      // Without the name, because copying it could allocate memory for every sample.
      const FieldSpec now{{}, specs[i].kind, in.dtype, in.shape, specs[i].classes};
      const FieldSpec after = op.output(now);
      const bool is_part = part && part->fields[i];
      op.apply(is_part ? within(drawn, *part->fields[i]) : drawn, specs[i].kind, in,
               spare[i].reset(after.dtype, after.shape), scratch);
      std::swap(array, spare[i]);
    }
  }

  const T op;

 private:
  bool moves_pixels() const {
    if constexpr (MayMovePixels<T>) return op.moves_pixels();
    return MovesPixels<T>;
  }

  Drawn drawn_at(const std::byte* at) const {
    std::array<std::byte, sizeof(Drawn)> bytes{};
    std::memcpy(bytes.data(), at, kDrawnBytes);
    return std::bit_cast<Drawn>(bytes);
  }

  Drawn within(const Drawn& drawn, const Window& window) const {
    if constexpr (ReadsRegion<T>) return op.within(drawn, window);
    return drawn;
  }

  /// Returns the shape of the first image that the operation touches, else of the first field that
  /// it touches, or no value if it touches none.
  std::optional<Shape> reference_shape(std::span<const FieldSpec> specs,
                                       const Sample& sample) const {
    std::optional<Shape> shape;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].kind == FieldKind::boxes || !op.touches(specs[i].kind)) continue;
      if (!shape) shape = sample.fields[i].array.view().shape;
      if (specs[i].kind == FieldKind::image) return sample.fields[i].array.view().shape;
    }
    return shape;
  }
};

/// Holds a BatchOperation in a chain of operations on samples, where it changes nothing.
template <BatchOperation T>
struct PassedBySamples {
  static constexpr std::string_view kName = T::kName;
  static constexpr bool kIsPassed = true;
  struct Drawn {};
  T op;

  void validate() const { op.validate(); }
  bool touches(FieldKind) const { return false; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(const Drawn&, FieldKind, ConstArray, MutableArray, Scratch&) const {}
};

}  // namespace detail

template <typename T>
requires(!std::same_as<T, AnyOp> && Operation<T>) AnyOp::AnyOp(T op)
    : self_(std::make_shared<const detail::OpHolder<T>>(std::move(op))) {}

template <BatchOperation T>
AnyOp::AnyOp(T op) : AnyOp(detail::PassedBySamples<T>{std::move(op)}) {}

template <typename T>
const T* AnyOp::get_if() const {
  if constexpr (BatchOperation<T>) {
    const auto* passed = get_if<detail::PassedBySamples<T>>();
    return passed == nullptr ? nullptr : &passed->op;
  } else {
    const auto* model = dynamic_cast<const detail::OpHolder<T>*>(self_.get());
    return model == nullptr ? nullptr : &model->op;
  }
}

}  // namespace slipstream
