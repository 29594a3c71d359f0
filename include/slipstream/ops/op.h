#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"
#include "slipstream/ops/boxes.h"

namespace slipstream {

/// Scratch memory of one worker, reused from call to call.
using Scratch = HostArray;

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
///                                               data; Shape is that of the sample's first image (or
///                                               first touched field)
///   void apply(const Drawn&, FieldKind, ConstArray in, MutableArray out, Scratch&) const
///                                               the CPU form; `out` has output()'s shape for `in`;
///                                               must write all of it; thread-safe
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

/// An operation that reads a part of each image alone says so by two more members; as the first of
/// a chain, it is then given that part, and little around it, decoded without the rest.
///   Region region(const Drawn&) const               the part of the image that apply() reads
///   Drawn within(const Drawn&, const Window&) const what apply() then takes for the window alone
template <typename T>
concept ReadsRegion = Operation<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape, const Window& window) {
  { op.region(op.draw(key, shape)) } -> std::same_as<Region>;
  { op.within(op.draw(key, shape), window) } -> std::same_as<decltype(op.draw(key, shape))>;
};

/// One that shrinks that part says so by another member; where DecodeOptions::scaled allows it, its
/// images are then decoded at 1 / 2, 1 / 4 or 1 / 8 of their size, and within() is told.
///   std::int64_t reduction(const Drawn&) const      by how much the part may be shrunk before it,
///                                                   at most; at least 1
template <typename T>
concept Shrinks = ReadsRegion<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape) {
  { op.reduction(op.draw(key, shape)) } -> std::same_as<std::int64_t>;
};

/// An operation that moves pixels says where to by another member: boxes then follow (touches() is
/// not asked about them). One without it leaves boxes as they are, and is refused beside them where
/// it changes an image's size.
///   AffineMap map(const Drawn&, const Shape&) const for an image of that shape
template <typename T>
concept MovesPixels = Operation<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape) {
  { op.map(op.draw(key, shape), shape) } -> std::same_as<AffineMap>;
};

/// An operation that does no more to an image than to resize the region that it reads (all of it,
/// unless it ReadsRegion) to output()'s size, as an antialiased Resize does, says so by a member: a
/// GPU can then do the same.
///   bool only_resizes() const
template <typename T>
concept MayOnlyResize = Operation<T> && requires(const T& op) {
  { op.only_resizes() } -> std::same_as<bool>;
};

/// A function of one pixel, as a GPU compiles it into its kernels.
struct DeviceFunction {
  std::string_view name;        ///< of its type
  std::string_view definition;  ///< of that type, in C++
  std::size_t size_bytes = 0;   ///< of an object of it
  std::size_t alignment = 0;
  std::vector<std::byte> fixed = {};  ///< the object; empty: what draw() returns is one
};

/// An operation that does nothing but apply a pixel function (pixel_op.h) to every pixel of images,
/// as PixelOp and DrawnPixelOp do, says so by a member: a GPU can then do the same.
///   DeviceFunction device_function() const
template <typename T>
concept HasDeviceFunction = Operation<T> && requires(const T& op) {
  { op.device_function() } -> std::same_as<DeviceFunction>;
};

/// An operation over whole batches (batch_ops.h). A chain holds it like any other, but a sample
/// alone passes it unchanged: whoever takes samples alone refuses it or leaves it out.
template <typename T>
concept BatchOperation = requires(const T& op) {
  requires T::kIsOverBatch;
  { T::kName } -> std::convertible_to<std::string_view>;
  op.validate();
};

/// A BatchOperation as samples pass it.
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

/// Images of a sample that hold little more than what the next operation reads of them, or are not
/// there: the operation is done to them elsewhere.
struct DecodedPart {
  Shape whole;                                ///< of the image that the operation is drawn for
  Window wanted;                              ///< of it
  std::vector<std::optional<Window>> fields;  ///< what each field holds; nothing: all of its image
  std::vector<bool> elsewhere = {};           ///< which fields are not there; empty: none
};

struct SyntheticCost;

/// Any Operation, by value; copies share it (operations are immutable).
class AnyOp {
 public:
  template <typename T>
  requires(!std::same_as<T, AnyOp> && Operation<T>) AnyOp(T op)
      : self_(std::make_shared<const Model<T>>(std::move(op))) {}
  template <BatchOperation T>
  AnyOp(T op) : AnyOp(PassedBySamples<T>{std::move(op)}) {}

  std::string_view name() const { return self_->name(); }
  void validate() const { self_->validate(); }
  bool touches(FieldKind kind) const { return self_->touches(kind); }
  FieldSpec output(const FieldSpec& in) const { return self_->output(in); }
  bool is_random() const { return self_->is_random(); }
  /// The operation itself, without what with_cost() added, or nullptr where it is of another type.
  template <typename T>
  const T* get_if() const {
    if constexpr (BatchOperation<T>) {
      const auto* passed = get_if<PassedBySamples<T>>();
      return passed == nullptr ? nullptr : &passed->op;
    } else {
      const auto* model = dynamic_cast<const Model<T>*>(&self_->bare());
      return model == nullptr ? nullptr : &model->op;
    }
  }
  /// Whether it is a BatchOperation.
  bool is_over_batch() const { return self_->is_over_batch(); }

  /// Whether it is an operation that ReadsRegion.
  bool reads_region() const { return self_->reads_region(); }
  /// Whether it only resizes (MayOnlyResize).
  bool only_resizes() const { return self_->only_resizes(); }
  /// Nothing, unless it HasDeviceFunction.
  std::optional<DeviceFunction> device_function() const { return self_->device_function(); }
  /// The part that it reads of an image of `shape` (all of it, unless it reads_region()), and by
  /// how much that may be shrunk (1 unless it Shrinks). Throws what draw() throws.
  Window window(const RandomKey& key, const Shape& shape) const {
    return self_->window(key, shape);
  }

  /// Bytes of what draw() writes: the operation's Drawn, nothing where that is empty.
  std::size_t drawn_bytes() const { return self_->drawn_bytes(); }
  /// One sample's parameters for an image of `shape`, as the operation's draw() gives them, into
  /// `to` (aligned to 16). Throws what that throws.
  void draw(const RandomKey& key, const Shape& shape, std::byte* to) const {
    self_->draw(key, shape, to);
  }
  /// Where it moves the pixels of an image of `shape`, with parameters that draw() wrote for that;
  /// nothing unless it MovesPixels, that is where it touches boxes.
  std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const {
    return self_->map(drawn, shape);
  }
  /// The CPU form for one field that is no boxes, with parameters that draw() wrote.
  void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const {
    self_->apply(drawn, kind, in, out, scratch);
  }

  /// Draws this sample's parameters and applies them to every touched field of `sample`, through
  /// `spare` (one array per field, swapped with the sample's). `specs` describe the fields' kinds.
  /// `part`: nullptr, or what the fields hold that were decoded for the window() of this key, and
  /// which are not there.
  /// Throws Error.
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part = nullptr) const {
    self_->apply(key, specs, sample, spare, scratch, part);
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    /// What get_if() looks at.
    virtual const Interface& bare() const { return *this; }
    virtual std::string_view name() const = 0;
    virtual void validate() const = 0;
    virtual bool touches(FieldKind kind) const = 0;
    virtual FieldSpec output(const FieldSpec& in) const = 0;
    virtual bool is_random() const = 0;
    virtual bool is_over_batch() const = 0;
    virtual bool reads_region() const = 0;
    virtual bool only_resizes() const = 0;
    virtual std::optional<DeviceFunction> device_function() const = 0;
    virtual Window window(const RandomKey& key, const Shape& shape) const = 0;
    virtual std::size_t drawn_bytes() const = 0;
    virtual void draw(const RandomKey& key, const Shape& shape, std::byte* to) const = 0;
    virtual std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const = 0;
    virtual void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
                       Scratch& scratch) const = 0;
    virtual void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
                       std::vector<HostArray>& spare, Scratch& scratch,
                       const DecodedPart* part) const = 0;
  };

  template <Operation T>
  struct Model final : Interface {
    explicit Model(T value) : op(std::move(value)) {}
    std::string_view name() const override { return T::kName; }
    void validate() const override { op.validate(); }
    bool touches(FieldKind kind) const override {
      return kind == FieldKind::boxes ? MovesPixels<T> : op.touches(kind);
    }
    FieldSpec output(const FieldSpec& in) const override { return op.output(in); }
    bool is_random() const override { return op.is_random(); }
    bool is_over_batch() const override {
      return requires { T::kIsPassed; };
    }

    bool reads_region() const override { return ReadsRegion<T>; }
    bool only_resizes() const override {
      if constexpr (MayOnlyResize<T>) return op.only_resizes();
      return false;
    }
    std::optional<DeviceFunction> device_function() const override {
      if constexpr (HasDeviceFunction<T>) return op.device_function();
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

    using Drawn = decltype(std::declval<const T&>().draw(RandomKey{}, Shape{}));
    static_assert(alignof(Drawn) <= 16, "the parameters of one sample are aligned to 16 at most");

    std::size_t drawn_bytes() const override { return std::is_empty_v<Drawn> ? 0 : sizeof(Drawn); }
    void draw(const RandomKey& key, const Shape& shape, std::byte* to) const override {
      const Drawn drawn = op.draw(key, shape);
      std::memcpy(to, &drawn, drawn_bytes());
    }
    Drawn drawn_at(const std::byte* at) const {
      std::array<std::byte, sizeof(Drawn)> bytes{};
      std::memcpy(bytes.data(), at, drawn_bytes());
      return std::bit_cast<Drawn>(bytes);
    }
    std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const override {
      if constexpr (MovesPixels<T>) return op.map(drawn_at(drawn), shape);
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
        // Without the name: copying it could allocate for every sample.
        const FieldSpec now{{}, specs[i].kind, in.dtype, in.shape, specs[i].classes};
        const FieldSpec after = op.output(now);
        const bool is_part = part && part->fields[i];
        op.apply(is_part ? within(drawn, *part->fields[i]) : drawn, specs[i].kind, in,
                 spare[i].reset(after.dtype, after.shape), scratch);
        std::swap(array, spare[i]);
      }
    }

    template <typename Drawn>
    Drawn within(const Drawn& drawn, const Window& window) const {
      if constexpr (ReadsRegion<T>) return op.within(drawn, window);
      return drawn;
    }

    /// Of the first image that it touches, else of the first field; none where it touches none.
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

    T op;
  };

  class Costly;
  friend AnyOp with_cost(AnyOp op, const SyntheticCost& cost);
  explicit AnyOp(std::shared_ptr<const Interface> self) : self_(std::move(self)) {}

  std::shared_ptr<const Interface> self_;
};

/// What fields are after `op`. Throws Refused as its output() does, and where there are boxes that
/// are not f32, N x 4, or cannot follow what it does.
std::vector<FieldSpec> fields_after(const AnyOp& op, std::vector<FieldSpec> fields);

struct NamedOp {
  std::string name;
  AnyOp op;
};

}  // namespace slipstream
