#include <utility>

#include "datasets/forwarding_dataset.h"
#include "datasets/identity.h"
#include "datasets/with_cost.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "transforms/cost_simulator.h"

namespace slipstream {
namespace {

constexpr std::size_t kRead = 0;
constexpr std::size_t kDecode = 1;

class WithCost final : public ForwardingDataset<> {
 public:
  WithCost(std::shared_ptr<const Dataset> dataset, const SyntheticCosts& costs)
      : ForwardingDataset(std::move(dataset)),
        costs_(costs),
        first_(dataset_->fields().front()),
        simulator_({costs.read, costs.decode}) {}

  bool decodes_by_default() const override {
    return costs_.decode.is_free() && dataset_->decodes_by_default();
  }
  std::uint64_t identity() const override {
    Identity identity;
    identity.add(dataset_->identity());
    identity.add(costs_.decode.is_free() ? 0 : 1);
    return identity.value();
  }

  void read(std::size_t index, Sample& out) const override {
    dataset_->read(index, out);
    if (!costs_.decode.is_free()) out.fields.front().encoded = true;
    simulator_.simulate(kRead);
  }

  void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
              HostArray& spare) const override {
    const bool is_first = spec.name == first_.name;
    if (is_first && !costs_.decode.is_free()) {
      simulator_.simulate(kDecode);
      field.encoded = !is_decoded(field.array.view());
    }
    if (field.encoded) dataset_->decode(spec, options, field, spare);
  }

 private:
  /// Returns true unless the value holds file bytes, which are uint8 of one dimension.
  bool is_decoded(const ConstArray& value) const {
    return value.dtype == first_.dtype && value.shape.rank == first_.shape.rank;
  }

  SyntheticCosts costs_;
  FieldSpec first_;
  CostSimulator simulator_;
};

}  // namespace

std::shared_ptr<const Dataset> with_cost(std::shared_ptr<const Dataset> dataset,
                                         const SyntheticCosts& costs) {
  std::vector<std::string> problems;
  if (dataset == nullptr) problems.emplace_back("the data set to add costs to is null");
  check_cost("read", costs.read, problems);
  check_cost("decode", costs.decode, problems);
  refuse(problems);
  return std::make_shared<WithCost>(std::move(dataset), costs);
}

}  // namespace slipstream
