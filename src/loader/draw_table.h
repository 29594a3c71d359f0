#pragma once

#include <cstdint>
#include <vector>

#include "loader/sampler.h"

namespace slipstream {

/// Which order of the epochs is meant.
struct OrderSeed {
  std::uint64_t seed = 0;
  bool shuffle = true;
};

/// What stands at the positions of an epoch that does not take every sample once. Immutable.
class DrawTable {
 public:
  virtual ~DrawTable() = default;
  virtual std::uint64_t size() const = 0;
  /// As Sampler's.
  virtual std::uint64_t occurrences() const = 0;
  virtual TakenSample take(const OrderSeed& order, std::uint32_t epoch,
                           std::uint64_t position) const = 0;
};

/// Sampling::balanced. REQUIRES: labels are at least 0, from 1 to 2^32 - 1 of them
class ClassTable final : public DrawTable {
 public:
  explicit ClassTable(const std::vector<std::int64_t>& labels);

  std::uint64_t size() const override { return members_.size(); }
  std::uint64_t occurrences() const override { return occurrences_; }
  TakenSample take(const OrderSeed& order, std::uint32_t epoch,
                   std::uint64_t position) const override;

 private:
  std::uint64_t classes() const { return first_.size() - 1; }

  std::vector<std::uint32_t> members_;  ///< samples by class
  std::vector<std::uint32_t> first_;    ///< of each class in members_, and their number
  std::uint64_t rounds_;                ///< in an epoch, with the one that is cut short
  std::uint64_t occurrences_ = 1;
};

/// Sampling::weighted. REQUIRES: weights are finite and at least 0, one is more, from 1 to 2^32 - 1
/// of them
class WeightTable final : public DrawTable {
 public:
  explicit WeightTable(const std::vector<double>& weights);

  std::uint64_t size() const override { return starts_.size(); }
  std::uint64_t occurrences() const override { return occurrences_; }
  TakenSample take(const OrderSeed& order, std::uint32_t epoch,
                   std::uint64_t position) const override;

 private:
  /// Where each sample's share begins on the line of all places, in 2^-32 of a place.
  std::vector<std::uint64_t> starts_;
  std::uint64_t occurrences_ = 1;
};

}  // namespace slipstream
