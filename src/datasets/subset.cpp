#include <utility>

#include "datasets/forwarding_dataset.h"
#include "datasets/identity.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

template <typename Base>
class Subset : public ForwardingDataset<Base> {
 public:
  Subset(std::shared_ptr<const Base> dataset, std::vector<std::size_t> indices)
      : ForwardingDataset<Base>(std::move(dataset)), indices_(std::move(indices)) {
    if (dataset_ == nullptr) throw Refused("the data set to take a subset of is null");
    for (const std::size_t index : indices_) {
      if (index < dataset_->size()) continue;
      throw Refused("a subset takes sample " + std::to_string(index) + ", but the data set has " +
                    std::to_string(dataset_->size()) + ", counted from 0");
    }
  }

  std::size_t size() const override { return indices_.size(); }
  void read(std::size_t index, Sample& out) const override {
    dataset_->read(indices_.at(index), out);
  }
  void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const override {
    dataset_->read_keyed(indices_.at(index), key, out);
  }
  std::string name(std::size_t index) const override { return dataset_->name(indices_.at(index)); }
  std::uint64_t identity() const override {
    Identity identity;
    identity.add(dataset_->identity());
    for (const std::size_t index : indices_) identity.add(index);
    return identity.value();
  }

 protected:
  using ForwardingDataset<Base>::dataset_;
  std::size_t base_index(std::size_t index) const { return indices_.at(index); }

 private:
  std::vector<std::size_t> indices_;
};

class LabeledSubset final : public Subset<LabeledDataset> {
 public:
  using Subset::Subset;
  std::int64_t label(std::size_t index) const override {
    return dataset_->label(base_index(index));
  }
};

}  // namespace

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::size_t> indices) {
  return std::make_shared<Subset<Dataset>>(std::move(dataset), std::move(indices));
}

std::shared_ptr<const LabeledDataset> subset(std::shared_ptr<const LabeledDataset> dataset,
                                             std::vector<std::size_t> indices) {
  return std::make_shared<LabeledSubset>(std::move(dataset), std::move(indices));
}

}  // namespace slipstream
