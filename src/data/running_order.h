#pragma once

#include <cstdint>

#include "slipstream/sampler.h"

namespace slipstream {

/// One sample's place in a run.
struct SamplePlace {
  std::uint64_t batch = 0;   ///< through all epochs
  std::size_t position = 0;  ///< in the batch
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;      ///< index in the data set
  std::uint16_t occurrence = 0;  ///< as RandomKey's
};

/// Which sample stands at which position of which batch: full batches, epoch after epoch.
class RunningOrder {
 public:
  /// REQUIRES: 0 < batch_size <= samples
  RunningOrder(std::uint64_t samples, bool shuffle, std::uint64_t seed, std::size_t batch_size)
      : sampler_(samples, shuffle, seed), batch_size_(batch_size) {}

  std::uint64_t batches_per_epoch() const { return sampler_.size() / batch_size_; }
  std::uint32_t epoch_of(std::uint64_t batch) const {
    return static_cast<std::uint32_t>(batch / batches_per_epoch());
  }

  std::uint64_t samples() const { return sampler_.size(); }

  /// What stands there, or `distance` places behind it in the epoch's order, taken round.
  SamplePlace at(std::uint64_t batch, std::size_t position, std::uint16_t distance = 0) const {
    const std::uint32_t epoch = epoch_of(batch);
    const std::uint64_t in_epoch = batch % batches_per_epoch() * batch_size_ + position + distance;
    return {batch, position, epoch, sampler_.at(epoch, in_epoch % samples()), distance};
  }

 private:
  Sampler sampler_;
  std::size_t batch_size_;
};

}  // namespace slipstream
