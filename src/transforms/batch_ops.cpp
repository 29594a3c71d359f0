#include "slipstream/transforms/batch_ops.h"

#include <algorithm>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kMostAlpha = 1000;

void require_alpha(std::string_view op, double alpha) {
  if (alpha > 0 && alpha <= kMostAlpha) return;
  throw Refused(std::string(op) + ": alpha is " + number_text(alpha) +
                "; it must be above 0 and at most 1000");
}

template <typename Op>
bool take_as(const NamedOp& next, std::optional<Op>& slot) {
  const Op* op = next.op.get_if<Op>();
  if (op == nullptr) return false;
  if (slot)
    throw Refused("transform '" + next.name + "' is a second " + std::string(Op::kName) +
                  "; give at most one");
  op->validate();
  slot = *op;
  return true;
}

}  // namespace

void MixUp::validate() const { require_alpha(kName, alpha); }
void CutMix::validate() const { require_alpha(kName, alpha); }

void OneHot::validate() const {
  if (label_smoothing >= 0 && label_smoothing <= 1) return;
  throw Refused("one_hot: label_smoothing is " + number_text(label_smoothing) +
                "; it must be 0 to 1");
}

std::string_view BatchOps::name() const {
  if (mixup) return MixUp::kName;
  return cutmix ? CutMix::kName : OneHot::kName;
}

bool BatchOps::take(const NamedOp& next) {
  if (!next.op.is_over_batch()) {
    if (empty()) return false;
    throw Refused("transform '" + next.name + "' comes after " + std::string(name()) +
                  ", which is applied to whole batches; put mixup, cutmix and one_hot last");
  }
  BatchOps more = *this;
  const bool is_taken =
      take_as(next, more.mixup) || take_as(next, more.cutmix) || take_as(next, more.one_hot);
  if (!is_taken)
    throw Refused("transform '" + next.name + "' is '" + std::string(next.op.name()) +
                  "', which is not one of the operations over batches: mixup, cutmix and one_hot");
  if (more.mixup && more.cutmix)
    throw Refused("transform '" + next.name +
                  "': give mixup or cutmix, not both; leave one of them out");
  *this = more;
  return true;
}

BatchOps take_batch_ops(std::vector<NamedOp>& chain) {
  BatchOps ops;
  std::size_t samples = 0;
  for (const NamedOp& each : chain) samples += ops.take(each) ? 0 : 1;
  chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(samples), chain.end());
  return ops;
}

}  // namespace slipstream
