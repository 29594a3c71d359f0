#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/codecs/image.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/loader/sampling.h"

namespace slipstream {

/// Options that determine the values in a batch: the samples, their order, and how files are
/// decoded. They belong to a pipeline and are the same for every plan.
struct SampleOptions {
  std::size_t batch_size = 8;  ///< samples in a batch of one rank, at least 1
  std::uint64_t seed = 1;      ///< seed for the order of samples and for all random transforms
  bool shuffle = true;         ///< false: samples are taken in the order of the data set
  Sampling sampler = {};       ///< how often an epoch takes each sample; once by default
  Rank rank = {};              ///< which part of each step this process loads
  /// Whether samples at the end of an epoch are left out if they are too few for a batch of every
  /// rank. Otherwise the last batches are completed with samples from the beginning of the epoch's
  /// order, as PyTorch's DistributedSampler does. These samples are taken a second time, with new
  /// random transforms. In both cases every batch has batch_size samples.
  bool drop_last = true;
  DecodeOptions decode = {};
  OnBadSample on_bad_sample = OnBadSample::stop;
  bool operator==(const SampleOptions&) const = default;
};

}  // namespace slipstream
