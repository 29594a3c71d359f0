#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slipstream/transforms/batch_ops.h"
#include "transforms/mix.h"

namespace slipstream {

/// BatchOps for fields of known shape and dtype. Random parameters are generated on the host, one
/// DrawnMix per sample, and are copied with the batch. Immutable, hence thread-safe.
class BatchChain {
 public:
  /// `operation` is the number of transforms before these. `fields` describe one sample after the
  /// last transform; their shapes are fixed. Throws Refused if there is not exactly one label with
  /// one class index per sample and a known number of classes. Mixing also needs exactly one image,
  /// no masks and no boxes, float32 images for MixUp, and at most 2^30 values per image.
  BatchChain(const BatchOps& ops, std::uint32_t operation, const std::vector<FieldSpec>& fields);

  const BatchOps& ops() const { return ops_; }
  /// Index of the field that is mixed; no value if only labels change.
  std::optional<std::size_t> image() const { return image_; }
  std::size_t label() const { return label_; }
  /// Layout and type of the images, with channels last.
  const MixForm& form() const { return form_; }
  /// Generates the parameters of the sample at index `place` of step `batch`. Indices count through
  /// all ranks.
  DrawnMix draw(std::uint64_t seed, std::uint64_t batch, std::uint32_t place) const;

 private:
  BatchOps ops_;
  std::uint32_t operation_;
  std::optional<std::size_t> image_;
  std::size_t label_ = 0;
  MixForm form_;
};

}  // namespace slipstream
