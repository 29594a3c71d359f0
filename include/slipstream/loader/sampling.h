#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace slipstream {

class DrawTable;
class LabeledDataset;

/// How often an epoch takes each sample. An epoch always has as many positions as the data set has
/// samples. The object is cheap to copy, because copies share their tables. It is immutable, so any
/// thread may use it.
class Sampling {
 public:
  /// Takes every sample once in each epoch.
  Sampling() = default;

  /// Takes each class equally often. The positions of an epoch form rounds, each with all classes
  /// in a random order; only the last round may be incomplete. A class provides its samples one
  /// after the other until all have been taken, and then again in another order. The next epoch
  /// continues where the last one ended, so over a run the samples of a class are also taken
  /// equally often. `labels` has the class number of each sample; the classes are the numbers that
  /// occur. Without shuffling, classes and samples are in the order of their numbers. Throws
  /// Refused if a label is negative, and if there are no labels or 2^32 or more.
  static Sampling balanced(const std::vector<std::int64_t>& labels);
  /// Takes each class of `dataset` equally often, by its labels. Throws Refused as balanced() with
  /// labels does.
  static Sampling balanced(const LabeledDataset& dataset);

  /// Samples in proportion to weights; a sample can be taken several times in an epoch. The sum of
  /// the weights is divided into equal parts, one for each position, and each position (shuffled or
  /// not, as configured) draws from its own part. The number of times that an epoch takes a sample
  /// therefore differs by less than two from its exact share, and equal weights take every sample
  /// once. Shares are exact to 2^-32 of a position; weights below 10^-9 of the largest may count as
  /// 0. Throws Refused if a weight is negative or not finite, if all weights are 0, and if there
  /// are none or 2^32 or more.
  static Sampling weighted(const std::vector<double>& weights);

  /// Returns the number of samples for which labels or weights were given; no value if every sample
  /// is taken once.
  std::optional<std::uint64_t> size() const;

  /// Returns true if both are copies that share their tables, or if both take every sample once.
  bool operator==(const Sampling&) const = default;

 private:
  friend class Sampler;
  explicit Sampling(std::shared_ptr<const DrawTable> table);

  std::shared_ptr<const DrawTable> table_;  // shared, because it is as large as the data set
};

/// One of the processes that train together. Each process loads a part of every step's batch: step
/// k takes batch_size x count samples of the epoch's order, rank 0 the first batch_size of them,
/// rank 1 the next, and so on. The samples of step k therefore depend only on that product, no two
/// ranks share a sample in a step, and all ranks have the same number of batches.
struct Rank {
  std::size_t index = 0;  ///< index of this process, below count
  std::size_t count = 1;  ///< number of processes, at least 1
  bool operator==(const Rank&) const = default;
};

}  // namespace slipstream
