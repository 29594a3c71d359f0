#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slipstream/transforms/batch_ops.h"
#include "transforms/mix.h"

namespace slipstream {

/// BatchOps for fields of known form. Random parameters are drawn on the host, a DrawnMix a sample,
/// and travel with the batch. Immutable.
class BatchChain {
 public:
  /// `operation`: how many transforms come before. `fields`: of a sample, as the last transform
  /// leaves it; their shapes are fixed. Throws Refused: without one label of one class number a
  /// sample that says how many classes there are; to mix, without one image, with masks, for uint8
  /// images (MixUp), or for images of more than 2^30 values.
  BatchChain(const BatchOps& ops, std::uint32_t operation, const std::vector<FieldSpec>& fields);

  const BatchOps& ops() const { return ops_; }
  /// Which field is mixed; none where labels alone change.
  std::optional<std::size_t> image() const { return image_; }
  std::size_t label() const { return label_; }
  /// Channels last.
  const MixForm& form() const { return form_; }
  /// What the sample at `place` of step `batch` draws; places are counted through all ranks.
  DrawnMix draw(std::uint64_t seed, std::uint64_t batch, std::uint32_t place) const;

 private:
  BatchOps ops_;
  std::uint32_t operation_;
  std::optional<std::size_t> image_;
  std::size_t label_ = 0;
  MixForm form_;
};

}  // namespace slipstream
