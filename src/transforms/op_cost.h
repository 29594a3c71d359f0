#pragma once

#include <memory>
#include <utility>

#include "transforms/cost_simulator.h"

namespace slipstream::detail {

/// The cost that with_cost() adds to an operation, after the costs that earlier calls added.
class OpCost {
 public:
  OpCost(std::shared_ptr<const OpCost> before, const SyntheticCost& cost)
      : before_(std::move(before)), simulator_({cost}) {}

  void simulate() const {
    if (before_) before_->simulate();
    simulator_.simulate(0);
  }

 private:
  std::shared_ptr<const OpCost> before_;
  CostSimulator simulator_;
};

}  // namespace slipstream::detail
