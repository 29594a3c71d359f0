#include "slipstream/engine/batch.h"

#include "slipstream/core/error.h"

namespace slipstream {

const at::Tensor& Batch::at(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [field, tensor] : fields_) {
    if (field == name) return tensor;
    known.push_back(field);
  }
  throw Error(unknown_name("batch field", name, known));
}

bool Batch::contains(const std::string& name) const {
  for (const auto& field : fields_)
    if (field.first == name) return true;
  return false;
}

std::int64_t Batch::classes(const std::string& name) const {
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].first == name) return classes_[i];
  return 0;
}

void Batch::set(const std::string& name, at::Tensor tensor, std::int64_t classes) {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].first != name) continue;
    fields_[i].second = std::move(tensor);
    classes_[i] = classes;
    return;
  }
  fields_.emplace_back(name, std::move(tensor));
  classes_.push_back(classes);
}

}  // namespace slipstream
