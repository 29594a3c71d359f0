#include <utility>

#include "datasets/array_form.h"
#include "datasets/identity.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

class TensorDataset final : public Dataset {
 public:
  TensorDataset(std::vector<ArrayField> arrays, std::vector<FieldSpec> specs)
      : arrays_(std::move(arrays)),
        specs_(std::move(specs)),
        size_(static_cast<std::size_t>(arrays_.front().values.view().shape[0])) {}

  std::size_t size() const override { return size_; }
  std::vector<FieldSpec> fields() const override { return specs_; }
  std::uint64_t identity() const override {
    Identity identity;
    identity.add(Dataset::identity());
    for (const ArrayField& array : arrays_) {
      const ConstArray values = array.values.view();
      identity.add(fingerprint(values.data, values.bytes()));
    }
    return identity.value();
  }

  void read(std::size_t index, Sample& out) const override {
    ensure(index < size_, "a sample's index is below the size of its data set");
    out.fields.resize(arrays_.size());
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      ConstArray row{arrays_[i].values.view().data, specs_[i].dtype, specs_[i].shape};
      // Arrays without values may have no memory.
      if (row.data != nullptr) row.data += index * row.bytes();
      out.fields[i].array.assign(row);
      out.fields[i].encoded = false;
    }
  }

 private:
  std::vector<ArrayField> arrays_;
  std::vector<FieldSpec> specs_;
  std::size_t size_;
};

}  // namespace

std::shared_ptr<const Dataset> tensor_dataset(std::vector<ArrayField> fields) {
  std::vector<ArrayForm> forms;
  for (const ArrayField& field : fields) {
    const ConstArray values = field.values.view();
    forms.push_back({field.name, field.kind, field.classes, values.dtype, values.shape,
                     "field '" + field.name + "'"});
  }
  std::vector<std::string> problems;
  std::vector<FieldSpec> specs = sample_specs(forms, problems);
  refuse(problems);
  return std::make_shared<TensorDataset>(std::move(fields), std::move(specs));
}

}  // namespace slipstream
