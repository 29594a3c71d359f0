#include "ops/cost_payer.h"
#include "ops/synthetic_cost.h"
#include "slipstream/core/error.h"

namespace slipstream {

/// Another operation, which costs something.
class AnyOp::Costly final : public AnyOp::Interface {
 public:
  Costly(AnyOp op, const SyntheticCost& cost) : op_(std::move(op)), payer_({cost}) {}

  const Interface& bare() const override { return op_.self_->bare(); }
  std::string_view name() const override { return op_.name(); }
  void validate() const override { op_.validate(); }
  bool touches(FieldKind kind) const override { return op_.touches(kind); }
  FieldSpec output(const FieldSpec& in) const override { return op_.output(in); }
  bool is_random() const override { return op_.is_random(); }
  bool reads_region() const override { return op_.reads_region(); }
  bool is_over_batch() const override { return op_.is_over_batch(); }
  std::optional<DeviceFunction> device_function() const override { return op_.device_function(); }
  bool only_resizes() const override { return op_.only_resizes(); }
  Window window(const RandomKey& key, const Shape& shape) const override {
    return op_.window(key, shape);
  }
  std::size_t drawn_bytes() const override { return op_.drawn_bytes(); }
  void draw(const RandomKey& key, const Shape& shape, std::byte* to) const override {
    op_.draw(key, shape, to);
  }
  std::optional<AffineMap> map(const std::byte* drawn, const Shape& shape) const override {
    return op_.map(drawn, shape);
  }
  void apply(const std::byte* drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const override {
    op_.apply(drawn, kind, in, out, scratch);
  }
  void apply(const RandomKey& key, std::span<const FieldSpec> specs, Sample& sample,
             std::vector<HostArray>& spare, Scratch& scratch,
             const DecodedPart* part) const override {
    op_.apply(key, specs, sample, spare, scratch, part);
    payer_.pay(0);
  }

 private:
  AnyOp op_;
  CostPayer payer_;
};

AnyOp with_cost(AnyOp op, const SyntheticCost& cost) {
  std::vector<std::string> problems;
  check_cost(std::string(op.name()), cost, problems);
  refuse(problems);
  return AnyOp(std::make_shared<const AnyOp::Costly>(std::move(op), cost));
}

}  // namespace slipstream
