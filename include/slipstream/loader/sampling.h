#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace slipstream {

class DrawTable;
class LabeledDataset;

/// How often each sample comes in an epoch. An epoch has as many places as the data set has
/// samples in any case. A value, cheap to copy: copies share their tables.
class Sampling {
 public:
  /// Every sample once.
  Sampling() = default;

  /// Each class equally often: in an epoch's places, one round of all classes follows another, each
  /// in an order of its own; only the last round may be cut short. A class gives its samples in
  /// turn until all were taken, then again in another order; it goes on in the next epoch where it
  /// was at the end of the last, so over a run its samples come equally often too. `labels`: one a
  /// sample; classes are those that occur. Not shuffled, classes and samples come by number.
  /// Throws Refused for labels below 0, none, or 2^32 and more.
  static Sampling balanced(const std::vector<std::int64_t>& labels);
  static Sampling balanced(const LabeledDataset& dataset);

  /// Drawn again and again, each sample in proportion to its weight. The weights' sum is cut into
  /// as many equal parts as there are places, and each place (shuffled like samples, or not) draws
  /// from a part of its own. So in each epoch a sample comes as often as its share of the places
  /// says, by less than two more or fewer, and equal weights are as good as none. Shares are exact
  /// to 2^-32 of a place; weights below 10^-9 of the largest may count as 0.
  /// Throws Refused for weights that are negative, infinite or no numbers, all 0, none, or 2^32 and
  /// more.
  static Sampling weighted(const std::vector<double>& weights);

  /// Number of samples that labels or weights were given for; nothing for every sample once.
  std::optional<std::uint64_t> size() const;

  /// Whether both share their tables.
  bool operator==(const Sampling&) const = default;

 private:
  friend class Sampler;
  explicit Sampling(std::shared_ptr<const DrawTable> table);

  std::shared_ptr<const DrawTable> table_;  // shared: it is as large as the data set
};

/// One of the processes that train together, each of which loads a part of every step's batch.
/// Step k takes batch_size x count samples of the epoch's order, rank 0 the first batch_size of
/// them, rank 1 the next, and so on: so what is trained at step k depends on that product alone,
/// ranks are disjoint, and all have equally many batches.
struct Rank {
  std::size_t index = 0;  ///< below count
  std::size_t count = 1;
  bool operator==(const Rank&) const = default;
};

}  // namespace slipstream
