#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/sync.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {

/// Appends what is wrong with `cost`, the cost of `what`, to `problems`.
void check_cost(const std::string& what, const SyntheticCost& cost,
                std::vector<std::string>& problems);

/// Returns the cost of call `number` as a multiple of the mean.
/// REQUIRES: check_cost() finds no problem
double cost_factor(const SyntheticCost& cost, std::uint64_t number);

/// Simulates the costs of one or several steps, which share one lock. Thread-safe.
class CostSimulator {
 public:
  explicit CostSimulator(const std::vector<SyntheticCost>& costs);
  ~CostSimulator();

  void simulate(std::size_t step) const;

 private:
  class Stream;
  struct Account {
    SyntheticCost cost;
    std::uint64_t number = 0;  ///< unique in this process
    mutable std::atomic<std::uint64_t> payments = 0;
  };

  void simulate_unlocked(const Account& account, double factor) const;

  std::vector<Account> accounts_;
  std::unique_ptr<const Stream> stream_;
  mutable Mutex mutex_;
};

}  // namespace slipstream
