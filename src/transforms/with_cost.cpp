#include "slipstream/core/error.h"
#include "transforms/op_cost.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {

AnyOp with_cost(AnyOp op, const SyntheticCost& cost) {
  std::vector<std::string> problems;
  check_cost(std::string(op.name()), cost, problems);
  refuse(problems);
  op.cost_ = std::make_shared<const detail::OpCost>(std::move(op.cost_), cost);
  return op;
}

}  // namespace slipstream
