#include "slipstream/transforms/op.h"
#include "transforms/op_cost.h"

namespace slipstream {

std::string_view AnyOp::name() const { return self_->traits.name; }

void AnyOp::validate() const { self_->validate(); }

bool AnyOp::touches(FieldKind kind) const { return self_->touches(kind); }

FieldSpec AnyOp::output(const FieldSpec& in) const { return self_->output(in); }

bool AnyOp::is_random() const { return self_->is_random(); }

bool AnyOp::is_over_batch() const { return self_->traits.is_over_batch; }

bool AnyOp::reads_region() const { return self_->traits.reads_region; }

bool AnyOp::finds_shape() const { return self_->traits.finds_shape; }

std::optional<AnyOp> AnyOp::for_evaluation() const {
  if (!is_random()) return *this;
  const std::string refused = "the operation '" + std::string(name()) + "' cannot be evaluated: ";
  if (!self_->traits.is_evaluated)
    throw Refused(refused +
                  "it is random and does not declare what it does when a model is evaluated; give "
                  "it a member for_evaluation() that returns an operation without randomness, or "
                  "std::nullopt to skip it");
  std::optional<AnyOp> declared = self_->for_evaluation();
  if (declared && declared->is_random())
    throw Refused(refused + "its for_evaluation() returns an operation that is random, '" +
                  std::string(declared->name()) + "'");
  return declared;
}

bool AnyOp::only_resizes() const { return self_->on_device().only_resizes; }

std::optional<DeviceFunction> AnyOp::device_function() const { return self_->on_device().function; }

Window AnyOp::window(const RandomKey& key, const Shape& shape) const {
  return self_->window(key, shape);
}

std::size_t AnyOp::drawn_bytes() const { return self_->traits.drawn_bytes; }

void AnyOp::draw(const RandomKey& key, const Shape& shape, std::byte* to) const {
  self_->draw(key, shape, to);
}

std::optional<AffineMap> AnyOp::map(const std::byte* drawn, const Shape& shape) const {
  return self_->map(drawn, shape);
}

void AnyOp::apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
                  Scratch& scratch) const {
  self_->apply(drawn, kind, in, out, scratch);
}

void AnyOp::apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
                  std::vector<HostArray>& spare, Scratch& scratch, const DecodedPart* part) const {
  self_->apply(key, specs, sample, spare, scratch, part);
  if (cost_) cost_->simulate();
}

}  // namespace slipstream
