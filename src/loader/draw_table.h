#pragma once

#include <cstdint>
#include <vector>

#include "loader/sampler.h"

namespace slipstream {

/// The seed of the epochs' order, and whether it is shuffled.
struct OrderSeed {
  std::uint64_t seed = 0;
  bool shuffle = true;
};

/// The samples at the positions of an epoch that does not take every sample once. Immutable, so any
/// thread may use it.
class DrawTable {
 public:
  virtual ~DrawTable() = default;
  virtual std::uint64_t size() const = 0;
  /// The same functions as in Sampler.
  virtual std::uint64_t occurrences() const = 0;
  virtual TakenSample take(const OrderSeed& order, std::uint32_t epoch,
                           std::uint64_t position) const = 0;
};

/// The table of Sampling::balanced(). REQUIRES: labels are at least 0, and there are 1 to 2^32 - 1
/// of them
class ClassTable final : public DrawTable {
 public:
  explicit ClassTable(const std::vector<std::int64_t>& labels);

  std::uint64_t size() const override { return members_.size(); }
  std::uint64_t occurrences() const override { return occurrences_; }
  TakenSample take(const OrderSeed& order, std::uint32_t epoch,
                   std::uint64_t position) const override;

 private:
  std::uint64_t classes() const { return first_.size() - 1; }

  std::vector<std::uint32_t> members_;  ///< samples, sorted by class
  /// Index in members_ of the first sample of each class, and at the end the number of samples.
  std::vector<std::uint32_t> first_;
  std::uint64_t rounds_;  ///< rounds in an epoch, including an incomplete last one
  std::uint64_t occurrences_ = 1;
};

/// The table of Sampling::weighted(). REQUIRES: weights are finite and at least 0, one of them is
/// above 0, and there are 1 to 2^32 - 1 of them
class WeightTable final : public DrawTable {
 public:
  explicit WeightTable(const std::vector<double>& weights);

  std::uint64_t size() const override { return starts_.size(); }
  std::uint64_t occurrences() const override { return occurrences_; }
  TakenSample take(const OrderSeed& order, std::uint32_t epoch,
                   std::uint64_t position) const override;

 private:
  /// The start of each sample's share of the positions, in units of 2^-32 of a position.
  std::vector<std::uint64_t> starts_;
  std::uint64_t occurrences_ = 1;
};

}  // namespace slipstream
