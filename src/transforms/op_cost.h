#pragma once

#include <memory>
#include <utility>

#include "transforms/cost_payer.h"

namespace slipstream::detail {

/// What with_cost() adds to an operation, behind what it had added before.
class OpCost {
 public:
  OpCost(std::shared_ptr<const OpCost> before, const SyntheticCost& cost)
      : before_(std::move(before)), payer_({cost}) {}

  void pay() const {
    if (before_) before_->pay();
    payer_.pay(0);
  }

 private:
  std::shared_ptr<const OpCost> before_;
  CostPayer payer_;
};

}  // namespace slipstream::detail
