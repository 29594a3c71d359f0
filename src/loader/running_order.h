#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/sampler.h"
#include "slipstream/core/philox.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// One sample's place in a run.
struct SamplePosition {
  std::uint64_t batch = 0;   ///< through all epochs
  std::size_t position = 0;  ///< in the batch
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;      ///< index in the data set
  std::uint16_t occurrence = 0;  ///< as RandomKey's
  std::uint32_t in_step = 0;     ///< position among those of all ranks' batches
};

/// Of operation `operation` on that sample, in a run with this seed.
inline RandomKey random_key(std::uint64_t seed, std::size_t operation,
                            const SamplePosition& place) {
  return {.seed = seed,
          .epoch = place.epoch,
          .sample = place.sample,
          .occurrence = place.occurrence,
          .operation = static_cast<std::uint32_t>(operation)};
}

/// Which sample stands at which position of which batch of one rank: full batches, epoch after
/// epoch. Immutable: workers share it.
class RunningOrder {
 public:
  /// REQUIRES: check_order() found no problem; 0 < batch_size <= samples
  RunningOrder(std::uint64_t samples, const DataLoaderOptions& options);

  std::uint64_t batches_per_epoch() const { return batches_; }
  std::uint32_t epoch_at(std::uint64_t batch) const {
    return static_cast<std::uint32_t>(batch / batches_);
  }
  /// Places of this rank in an epoch, with those behind its last batch.
  std::uint64_t places() const { return places_; }

  /// What stands there, or `distance` (below places()) places behind it in the rank's order, taken
  /// round. The occurrence tells all (place, distance) of a sample in an epoch apart, on all ranks,
  /// as far as 16 bits do.
  SamplePosition at(std::uint64_t batch, std::size_t position, std::uint16_t distance = 0) const;

 private:
  Sampler sampler_;
  std::size_t batch_size_;
  std::uint64_t step_;         ///< samples of all ranks' batches
  std::uint64_t offset_;       ///< of this rank's in them
  std::uint64_t last_offset_;  ///< the same in the last step of an epoch
  std::uint64_t batches_;      ///< in an epoch
  std::uint64_t places_;
  std::uint64_t occurrences_;  ///< at distance 0
};

/// What is wrong with the ranks and the sampling that `options` ask for.
void check_order(std::uint64_t samples, const DataLoaderOptions& options,
                 std::vector<std::string>& problems);

}  // namespace slipstream
