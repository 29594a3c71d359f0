#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/device_slab.h"

namespace slipstream {

/// Digest of tensors' values, in order: each one's bytes as they lie in memory, the same on the
/// host and on any GPU, also where they are on several. Waits for their devices.
std::uint64_t compute_digest(std::span<const at::Tensor> tensors);

/// Finds fields of batches whose values change.
class FieldDigests {
 public:
  /// Of none.
  FieldDigests() = default;
  /// As they are now; waits for their devices.
  explicit FieldDigests(std::span<const Fields> batches);
  /// Names of those that have changed since, sorted. Waits as above.
  /// REQUIRES: `batches` are those that this was made of
  std::vector<std::string> changed_in(std::span<const Fields> batches) const;

 private:
  std::vector<std::uint64_t> digests_;
};

}  // namespace slipstream
