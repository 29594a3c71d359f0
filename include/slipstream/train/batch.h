#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// The named tensors of one batch, as a stage sees them: what the steps before it made, on the
/// stage's device. Reading a tensor here is ordered after its writer; a stage must not keep a
/// tensor beyond its call unless it owns a reference for good (it then stays as it is: the slot
/// takes fresh memory), and must not write into what another stage made.
class Batch {
 public:
  explicit Batch(std::uint64_t number = 0) : number_(number) {}

  /// Step of training that this batch is, counted from 0 over all epochs.
  std::uint64_t number() const { return number_; }
  /// Throws Error naming the fields there are.
  const at::Tensor& at(const std::string& name) const;
  bool contains(const std::string& name) const;
  /// Adds a field, or replaces it for the stages that follow.
  void set(const std::string& name, at::Tensor tensor);
  const std::vector<std::pair<std::string, at::Tensor>>& fields() const { return fields_; }

 private:
  std::uint64_t number_;
  std::vector<std::pair<std::string, at::Tensor>> fields_;
};

}  // namespace slipstream
