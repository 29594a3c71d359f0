#pragma once

#include <random>
#include <vector>

#include "cuda/augment/executor.h"
#include "transforms/device_chain.h"

namespace slipstream::test {

/// Values that look like an image of `spec`, always the same for a seed: uint8, int64 classes below
/// spec.classes, or float32 from 0 to 1.
Bytes noise(const FieldSpec& spec, std::uint32_t seed);
/// float32 values of every magnitude, including zeros of both signs, but no infinities.
Bytes extreme_floats(const FieldSpec& spec, std::uint32_t seed);

FieldSpec image_field(std::int64_t height, std::int64_t width, std::int64_t channels = 3,
                      DType dtype = DType::uint8);
/// Describes a mask of ten classes.
FieldSpec mask_field(std::int64_t height, std::int64_t width, DType dtype = DType::int64);

/// Converts a finished image or mask to the layout and type of `output`.
Bytes arrange_output(const ConstArray& image, const AugmentOutput& output);

/// A batch of one field, its random parameters, and the result of applying the operations one by
/// one.
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

  /// Compares the executor's result with `expected`, bit for bit.
  void check() const;
};

}  // namespace slipstream::test
