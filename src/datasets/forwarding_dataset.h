#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Forwards all calls to the data set that it holds. Derived classes override some of them. Base is
/// Dataset or LabeledDataset.
template <typename Base = Dataset>
class ForwardingDataset : public Base {
 public:
  explicit ForwardingDataset(std::shared_ptr<const Base> dataset) : dataset_(std::move(dataset)) {}

  std::size_t size() const override { return dataset_->size(); }
  std::vector<FieldSpec> fields() const override { return dataset_->fields(); }
  void read(std::size_t index, Sample& out) const override { dataset_->read(index, out); }
  void decode(const FieldSpec& spec, const DecodeOptions& options, Field& field,
              HostArray& spare) const override {
    dataset_->decode(spec, options, field, spare);
  }
  bool decodes_by_default() const override { return dataset_->decodes_by_default(); }
  std::uint64_t identity() const override { return dataset_->identity(); }
  const std::vector<std::string>& class_names() const override { return dataset_->class_names(); }
  std::vector<std::string> remarks() const override { return dataset_->remarks(); }
  std::string name(std::size_t index) const override { return dataset_->name(index); }

 protected:
  const std::shared_ptr<const Base> dataset_;
};

}  // namespace slipstream
