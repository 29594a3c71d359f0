#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loader/batch_queue.h"
#include "loader/sampler.h"
#include "slipstream/core/philox.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// The position of one sample in a run.
struct SamplePosition {
  std::uint64_t batch = 0;   ///< number of the batch, counted through all epochs of the loader
  std::size_t position = 0;  ///< index in the batch
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;      ///< index in the data set
  std::uint16_t occurrence = 0;  ///< occurrence for RandomKey
  std::uint32_t in_step = 0;     ///< position in the step, counted over the batches of all ranks
  std::uint64_t batch_key = 0;   ///< selects the random numbers for the whole batch
};

/// Returns the random key of operation `operation` for that sample, in a run with this seed.
inline RandomKey random_key(std::uint64_t seed, std::size_t operation,
                            const SamplePosition& place) {
  return {.seed = seed,
          .epoch = place.epoch,
          .sample = place.sample,
          .occurrence = place.occurrence,
          .operation = static_cast<std::uint32_t>(operation)};
}

/// Maps each position of each batch of one rank to a sample: full batches, epoch after epoch.
/// Immutable, so workers share it.
class RunningOrder {
 public:
  /// REQUIRES: check_order() found no problem; 0 < batch_size <= samples
  RunningOrder(std::uint64_t samples, const DataLoaderOptions& options);

  /// Returns the number of batches of each epoch. REQUIRES: the order of samples is computed, not
  /// given by a BatchQueue, which may contain any number of batches
  std::uint64_t batches_per_epoch() const { return batches_; }
  std::uint32_t epoch_at(std::uint64_t batch) const;
  /// Returns the number of different positions from which a bad sample of this batch is replaced:
  /// those of this rank in an epoch, including those after its last full batch, or those of a
  /// listed batch.
  std::uint64_t places(std::uint64_t batch) const;

  /// Returns the sample at this position or, with `distance` (below places()), the sample that many
  /// positions later in the rank's order or in the listed batch, which wraps around. The occurrence
  /// is different for all (position, distance) at which an epoch has the same sample, on all ranks,
  /// as far as 16 bits allow. Random numbers for them therefore differ.
  SamplePosition at(std::uint64_t batch, std::size_t position, std::uint16_t distance = 0) const;

 private:
  std::shared_ptr<const BatchQueue> listed_;  ///< nullptr: the order is computed
  Sampler sampler_;
  std::size_t batch_size_;
  std::uint64_t step_;         ///< samples in one step of all ranks
  std::uint64_t offset_;       ///< offset of this rank's samples in a step
  std::uint64_t last_offset_;  ///< offset in the last step of an epoch
  std::uint64_t batches_;      ///< batches in an epoch
  std::uint64_t places_;
  std::uint64_t occurrences_;  ///< number of occurrences at distance 0
};

/// Adds the problems of the ranks and the sampling in `options` to `problems`.
void check_order(std::uint64_t samples, const DataLoaderOptions& options,
                 std::vector<std::string>& problems);

}  // namespace slipstream
