#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace slipstream {

class DrawTable;
class LabeledDataset;

/// How often each sample comes in an epoch. An epoch always has as many places as the data set has
/// samples. The object is cheap to copy: copies share their tables.
class Sampling {
 public:
  /// Takes every sample once.
  Sampling() = default;

  /// Takes each class equally often. The places of an epoch are rounds, each with all classes in a
  /// random order; only the last round may be incomplete. A class gives its samples in turn until
  /// all were taken, then again in another order. In the next epoch it goes on where it was at the
  /// end of the last, so over a run its samples come equally often too. `labels` has the class
  /// number of each sample; classes are the numbers that occur. Without shuffling, classes and
  /// samples come by number. Throws Refused where a label is below 0 and where there are no labels,
  /// or 2^32 or more of them.
  static Sampling balanced(const std::vector<std::int64_t>& labels);
  /// Takes each class of `dataset` equally often, by its labels. Throws Refused as balanced() of
  /// labels does.
  static Sampling balanced(const LabeledDataset& dataset);

  /// Draws samples in proportion to their weights; a sample can come several times. The sum of the
  /// weights is divided into as many equal parts as there are places, and each place (shuffled as
  /// samples are, or not) draws from a part of its own. So in each epoch a sample comes as often as
  /// its share of the places says, by less than two more or fewer, and equal weights take every
  /// sample once. Shares are exact to 2^-32 of a place; weights below 10^-9 of the largest may
  /// count as 0. Throws Refused for weights that are negative or not finite, for weights that are
  /// all 0, and where there are none, or 2^32 or more of them.
  static Sampling weighted(const std::vector<double>& weights);

  /// The number of samples that labels or weights were given for; no value where every sample is
  /// taken once.
  std::optional<std::uint64_t> size() const;

  /// Whether both are copies that share their tables, or both take every sample once.
  bool operator==(const Sampling&) const = default;

 private:
  friend class Sampler;
  explicit Sampling(std::shared_ptr<const DrawTable> table);

  std::shared_ptr<const DrawTable> table_;  // shared: it is as large as the data set
};

/// One of the processes that train together. Each loads a part of every step's batch: step k takes
/// batch_size x count samples of the epoch's order, rank 0 the first batch_size of them, rank 1 the
/// next, and so on. So the samples of step k depend on that product alone, no two ranks share a
/// sample of a step, and all ranks have equally many batches.
struct Rank {
  std::size_t index = 0;  ///< of this process, below count
  std::size_t count = 1;  ///< number of processes, at least 1
  bool operator==(const Rank&) const = default;
};

}  // namespace slipstream
