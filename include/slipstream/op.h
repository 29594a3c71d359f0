#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "slipstream/array.h"
#include "slipstream/philox.h"

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

  /// Draws this sample's parameters and applies them to every touched field of `sample`, through
  /// `spare` (one array per field, swapped with the sample's). `specs` describe the fields' kinds.
  /// Throws Error.
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch) const {
    self_->apply(key, specs, sample, spare, scratch);
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual std::string_view name() const = 0;
    virtual void validate() const = 0;
    virtual bool touches(FieldKind kind) const = 0;
    virtual FieldSpec output(const FieldSpec& in) const = 0;
    virtual bool is_random() const = 0;
    virtual void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
                       std::vector<HostArray>& spare, Scratch& scratch) const = 0;
  };

  template <Operation T>
  struct Model final : Interface {
    explicit Model(T value) : op(std::move(value)) {}
    std::string_view name() const override { return T::kName; }
    void validate() const override { op.validate(); }
    bool touches(FieldKind kind) const override { return op.touches(kind); }
    FieldSpec output(const FieldSpec& in) const override { return op.output(in); }
    bool is_random() const override { return op.is_random(); }

    void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
               std::vector<HostArray>& spare, Scratch& scratch) const override {
      const auto drawn = op.draw(key, reference_shape(specs, sample));
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (!op.touches(specs[i].kind)) continue;
        HostArray& array = sample.fields[i].array;
        const ConstArray in = array.view();
        // Without the name: copying it could allocate for every sample.
        const FieldSpec now{{}, specs[i].kind, in.dtype, in.shape, specs[i].classes};
        const FieldSpec after = op.output(now);
        op.apply(drawn, specs[i].kind, in, spare[i].reset(after.dtype, after.shape), scratch);
        std::swap(array, spare[i]);
      }
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
