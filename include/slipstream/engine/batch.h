#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// The named tensors of one batch, as a stage sees them: what the steps before it made, on the
/// stage's device. Work that a stage enqueues on its current stream runs after the steps that made
/// the tensors. A stage must not write into a tensor that another stage made. A tensor that it
/// keeps beyond its call stays as it is, and the next batch takes fresh memory.
class Batch {
 public:
  explicit Batch(std::uint64_t number = 0) : number_(number) {}

  /// The number of the training step that uses this batch, counted from 0 over all epochs.
  std::uint64_t number() const { return number_; }
  /// The tensor of that name. Those that come from the loader are batch x the shape of the field,
  /// but images are batch x channels x height x width, channels-last in memory. Throws Error,
  /// naming the known fields, where there is none.
  const at::Tensor& at(const std::string& name) const;
  /// Whether there is a tensor of that name.
  bool contains(const std::string& name) const;
  /// Of class numbers, which are below it: how many classes the data set says there are. 0 where it
  /// does not say it, where a stage has replaced the tensor, and where there is none.
  std::int64_t classes(const std::string& name) const;
  /// Adds a tensor, or replaces the one of that name for the stages that follow. `classes`: of
  /// class numbers, as above.
  void set(const std::string& name, at::Tensor tensor, std::int64_t classes = 0);
  /// The positions at which another sample took the place of a bad one, in no order
  /// (OnBadSample::skip).
  const std::vector<std::size_t>& stand_ins() const { return stand_ins_; }
  void set_stand_ins(std::vector<std::size_t> positions) { stand_ins_ = std::move(positions); }
  /// All tensors with their names, in the order in which they were added.
  const std::vector<std::pair<std::string, at::Tensor>>& fields() const { return fields_; }

 private:
  std::uint64_t number_;
  std::vector<std::pair<std::string, at::Tensor>> fields_;
  std::vector<std::int64_t> classes_;  ///< of each field
  std::vector<std::size_t> stand_ins_;
};

}  // namespace slipstream
