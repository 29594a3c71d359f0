#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/sync.h"

namespace slipstream {

/// Batches of sample indices that the caller lists while a DataLoader loads them, for example those
/// of a sampler whose order cannot be computed. Batches are numbered in the order in which they are
/// added. All functions may be called from any thread.
class BatchQueue {
 public:
  /// `first`: number of the first batch that will be added.
  explicit BatchQueue(std::uint64_t first = 0) : dropped_(first) {}

  /// One sample of a batch.
  struct Item {
    std::uint64_t sample = 0;      ///< index in the data set
    std::uint16_t occurrence = 0;  ///< distinguishes several uses of the sample in one epoch
  };

  /// Adds a batch at the end. `number` selects the random numbers for the whole batch; its upper 32
  /// bits are the epoch. REQUIRES: `items` is not empty
  void add(std::uint64_t number, std::vector<Item> items) SLIPSTREAM_EXCLUDES(mutex_);
  /// Returns the number that the next batch will have: without `first`, the number of batches that
  /// have been added, including dropped ones.
  std::uint64_t size() const SLIPSTREAM_EXCLUDES(mutex_);
  /// Whether the batch was added and not dropped.
  bool has(std::uint64_t batch) const SLIPSTREAM_EXCLUDES(mutex_);
  /// Returns the number with which a batch was added. REQUIRES: the batch was added and not dropped
  std::uint64_t number(std::uint64_t batch) const SLIPSTREAM_EXCLUDES(mutex_);
  /// Returns the number of samples of a batch. REQUIRES: the batch was added and not dropped
  std::size_t batch_size(std::uint64_t batch) const SLIPSTREAM_EXCLUDES(mutex_);
  /// Returns a sample of a batch. Positions after the last sample start again with the first one,
  /// with other occurrences.
  /// REQUIRES: the batch was added and not dropped
  Item at(std::uint64_t batch, std::size_t position) const SLIPSTREAM_EXCLUDES(mutex_);
  /// Frees the memory of all batches before `batch`.
  void drop_before(std::uint64_t batch) SLIPSTREAM_EXCLUDES(mutex_);

 private:
  struct Batch {
    std::uint64_t number = 0;
    std::vector<Item> items;
  };

  const Batch& get(std::uint64_t batch) const SLIPSTREAM_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<Batch> batches_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::uint64_t dropped_ SLIPSTREAM_GUARDED_BY(mutex_);  ///< number of the first batch in batches_
};

}  // namespace slipstream
