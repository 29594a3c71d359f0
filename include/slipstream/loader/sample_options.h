#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/codecs/image.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/loader/sampling.h"

namespace slipstream {

/// Options that decide the values in a batch: the samples, their order, and how files are decoded.
/// They belong to a pipeline, whatever its plan.
struct SampleOptions {
  std::size_t batch_size = 8;  ///< samples in a batch of one rank, at least 1
  std::uint64_t seed = 1;      ///< of the order of samples and of all random draws
  bool shuffle = true;         ///< false: samples are taken in the order of the data set
  Sampling sampler = {};       ///< how often an epoch takes each sample; by default once
  Rank rank = {};              ///< which part of every step this process loads
  /// Whether the last samples of an epoch's order are left out where they are too few for a batch
  /// of every rank. Otherwise the batches are completed from the beginning of that epoch's order,
  /// as PyTorch's DistributedSampler does. These samples are taken a second time, with new random
  /// draws. Every batch has batch_size samples either way.
  bool drop_last = true;
  DecodeOptions decode = {};
  OnBadSample on_bad_sample = OnBadSample::stop;
  bool operator==(const SampleOptions&) const = default;
};

}  // namespace slipstream
