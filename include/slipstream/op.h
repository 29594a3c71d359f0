#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "slipstream/array.h"
#include "slipstream/philox.h"
#include "slipstream/region.h"

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
/// a chain, it is then given that part, decoded without the rest.
///   Region region(const Drawn&) const               the part of the image that apply() reads
///   Drawn within(const Drawn&, const Region&) const what apply() then takes for the part alone
template <typename T>
concept ReadsRegion = Operation<T> &&
    requires(const T& op, const RandomKey& key, const Shape& shape, const Region& part) {
  { op.region(op.draw(key, shape)) } -> std::same_as<Region>;
  { op.within(op.draw(key, shape), part) } -> std::same_as<decltype(op.draw(key, shape))>;
};

/// Images of a sample that hold no more than what the next operation reads of them.
struct DecodedPart {
  Shape whole;  ///< of the image that the operation is drawn for
  Region region;
  std::vector<bool> fields;  ///< which fields hold `region` alone
};

/// Any Operation, by value; copies share it (operations are immutable).
class AnyOp {
 public:
  template <typename T>
  requires(!std::same_as<T, AnyOp> && Operation<T>) AnyOp(T op)
      : self_(std::make_shared<const Model<T>>(std::move(op))) {}

  std::string_view name() const { return self_->name(); }
  void validate() const { self_->validate(); }
  bool touches(FieldKind kind) const { return self_->touches(kind); }
  FieldSpec output(const FieldSpec& in) const { return self_->output(in); }
  bool is_random() const { return self_->is_random(); }
  /// The operation itself, or nullptr where it is of another type.
  template <Operation T>
  const T* get_if() const {
    const auto* model = dynamic_cast<const Model<T>*>(self_.get());
    return model == nullptr ? nullptr : &model->op;
  }

  /// Whether it is an operation that ReadsRegion.
  bool reads_region() const { return self_->reads_region(); }
  /// The part that it reads of an image of `shape`. Throws what draw() throws.
  /// REQUIRES: reads_region()
  Region region(const RandomKey& key, const Shape& shape) const {
    return self_->region(key, shape);
  }

  /// Draws this sample's parameters and applies them to every touched field of `sample`, through
  /// `spare` (one array per field, swapped with the sample's). `specs` describe the fields' kinds.
  /// `part`: nullptr, or which fields hold the part alone that region() named for this key.
  /// Throws Error.
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part = nullptr) const {
    self_->apply(key, specs, sample, spare, scratch, part);
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual std::string_view name() const = 0;
    virtual void validate() const = 0;
    virtual bool touches(FieldKind kind) const = 0;
    virtual FieldSpec output(const FieldSpec& in) const = 0;
    virtual bool is_random() const = 0;
    virtual bool reads_region() const = 0;
    virtual Region region(const RandomKey& key, const Shape& shape) const = 0;
    virtual void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
                       std::vector<HostArray>& spare, Scratch& scratch,
                       const DecodedPart* part) const = 0;
  };

  template <Operation T>
  struct Model final : Interface {
    explicit Model(T value) : op(std::move(value)) {}
    std::string_view name() const override { return T::kName; }
    void validate() const override { op.validate(); }
    bool touches(FieldKind kind) const override { return op.touches(kind); }
    FieldSpec output(const FieldSpec& in) const override { return op.output(in); }
    bool is_random() const override { return op.is_random(); }

    bool reads_region() const override { return ReadsRegion<T>; }
    Region region(const RandomKey& key, const Shape& shape) const override {
      if constexpr (ReadsRegion<T>) return op.region(op.draw(key, shape));
      return {0, 0, shape[0], shape[1]};
    }

    void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
               std::vector<HostArray>& spare, Scratch& scratch,
               const DecodedPart* part) const override {
      const auto drawn = op.draw(key, part ? part->whole : reference_shape(specs, sample));
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (!op.touches(specs[i].kind)) continue;
        HostArray& array = sample.fields[i].array;
        const ConstArray in = array.view();
        // Without the name: copying it could allocate for every sample.
        const FieldSpec now{{}, specs[i].kind, in.dtype, in.shape, specs[i].classes};
        const FieldSpec after = op.output(now);
        const bool is_part = part && part->fields[i];
        op.apply(is_part ? within(drawn, part->region) : drawn, specs[i].kind, in,
                 spare[i].reset(after.dtype, after.shape), scratch);
        std::swap(array, spare[i]);
      }
    }

    template <typename Drawn>
    Drawn within(const Drawn& drawn, const Region& part) const {
      if constexpr (ReadsRegion<T>) return op.within(drawn, part);
      return drawn;
    }

    Shape reference_shape(std::span<const FieldSpec> specs, const Sample& sample) const {
      Shape shape;
      bool found = false;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (!op.touches(specs[i].kind)) continue;
        if (!found) shape = sample.fields[i].array.view().shape;
        found = true;
        if (specs[i].kind == FieldKind::image) return sample.fields[i].array.view().shape;
      }
      return shape;
    }

    T op;
  };

  std::shared_ptr<const Interface> self_;
};

}  // namespace slipstream
