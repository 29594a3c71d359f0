#include "slipstream/train/batch.h"

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

void Batch::set(const std::string& name, at::Tensor tensor) {
  for (auto& field : fields_) {
    if (field.first != name) continue;
    field.second = std::move(tensor);
    return;
  }
  fields_.emplace_back(name, std::move(tensor));
}

}  // namespace slipstream
