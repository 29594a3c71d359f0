#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// The named tensors of one batch that a stage reads and sets: the outputs of all earlier steps, on
/// the stage's device. Work that a stage enqueues on its current stream runs after the steps that
/// computed the tensors. A stage must not write into a tensor that another stage created. A stage
/// may keep a tensor after its call: the tensor keeps its values, and the next batch in the slot
/// gets new memory.
class Batch {
 public:
  explicit Batch(std::uint64_t number = 0) : number_(number) {}

  /// The number of the training step that uses this batch, counted from 0 over all epochs.
  std::uint64_t number() const { return number_; }
  /// Returns the tensor of that name. A field from the loader has shape batch x shape of the field,
  /// except that images are batch x channels x height x width, channels-last in memory. Throws
  /// Error, with the known names, if there is no such tensor.
  const at::Tensor& at(const std::string& name) const;
  /// Returns true if there is a tensor of that name.
  bool contains(const std::string& name) const;
  /// Returns the number of classes that the data set declares for a field of class numbers; all
  /// values are below it. Returns 0 if the data set declares none, if a stage has replaced the
  /// tensor, and if there is no such tensor.
  std::int64_t classes(const std::string& name) const;
  /// Adds a tensor, or replaces the one of that name for later stages. If it holds class numbers,
  /// `classes` is their number, as returned by classes(); 0 if unknown.
  void set(const std::string& name, at::Tensor tensor, std::int64_t classes = 0);
  /// The positions at which a bad sample was replaced by another sample, in no particular order
  /// (OnBadSample::skip).
  const std::vector<std::size_t>& stand_ins() const { return stand_ins_; }
  void set_stand_ins(std::vector<std::size_t> positions) { stand_ins_ = std::move(positions); }
  /// All tensors with their names, in the order in which they were added.
  const std::vector<std::pair<std::string, at::Tensor>>& fields() const { return fields_; }

 private:
  std::uint64_t number_;
  std::vector<std::pair<std::string, at::Tensor>> fields_;
  std::vector<std::int64_t> classes_;  ///< number of classes of each field
  std::vector<std::size_t> stand_ins_;
};

}  // namespace slipstream
