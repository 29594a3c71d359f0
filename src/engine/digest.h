#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/device_slab.h"

namespace slipstream {

/// Computes a digest of the values of tensors, in order, from the bytes of each tensor in memory.
/// The result is the same on the host, on any GPU, and if the tensors are on several devices. Waits
/// for their devices.
std::uint64_t compute_digest(std::span<const at::Tensor> tensors);

/// Finds out which fields of batches have changed.
class FieldDigests {
 public:
  /// Makes the digests of no batch.
  FieldDigests() = default;
  /// Computes the digests of `batches`. Waits for their devices.
  explicit FieldDigests(std::span<const Fields> batches);
  /// Returns the sorted names of the fields that have changed since construction. Waits for their
  /// devices. REQUIRES: `batches` are those that were given to the constructor
  std::vector<std::string> changed_in(std::span<const Fields> batches) const;

 private:
  std::vector<std::uint64_t> digests_;
};

}  // namespace slipstream
