#pragma once

#include <random>
#include <vector>

#include "cuda/augment/executor.h"
#include "transforms/device_chain.h"

namespace slipstream::test {

/// Values that look like an image of `spec`, the same for the same seed: uint8, int64 classes below
/// spec.classes, or float32 of 0 to 1.
Bytes noise(const FieldSpec& spec, std::uint32_t seed);
/// float32 of all sizes that there are, zeros of both signs among them, but for infinities.
Bytes extreme_floats(const FieldSpec& spec, std::uint32_t seed);

/// A finished image or mask as `output` asks for it.
Bytes arrange_output(const ConstArray& image, const AugmentOutput& output);

/// A batch of one field, what is drawn for it, and what the operations make of it one by one.
struct ChainCase {
  ChainCase(const std::vector<NamedOp>& operations, const FieldSpec& field, std::size_t batch_size,
            AugmentOutput output = {}, std::uint32_t seed = 1,
            Bytes (*contents)(const FieldSpec&, std::uint32_t) = noise);

  DeviceChain chain;
  AugmentPlan plan;
  std::size_t batch_size;
  Bytes images;
  Bytes drawn;
  Bytes expected;

  /// Compares what the executor makes with `expected`, bit for bit.
  void check() const;
};

}  // namespace slipstream::test
