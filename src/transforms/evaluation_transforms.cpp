#include <algorithm>

#include "slipstream/transforms/chain.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {

namespace {

void add_for_evaluation(const NamedOp& each, std::vector<NamedOp>& kept) {
  const auto* choice = each.op.get_if<RandomChoice>();
  if (const auto* crop = each.op.get_if<RandomResizedCrop>()) {
    // A resize to 8/7 of the crop, rounded up, is torchvision's usual evaluation (256 for 224).
    const std::int64_t longer = std::max(crop->size.height, crop->size.width);
    kept.push_back({each.name + "_resize",
                    Resize{(longer * 8 + 6) / 7, crop->antialias, crop->interpolation}});
    kept.push_back({each.name, CenterCrop{crop->size}});
  } else if (choice != nullptr && each.op.is_random() && choice->changes_images()) {
    add_for_evaluation({each.name, choice->transforms.front().op}, kept);
  } else if (const std::optional<AnyOp> op = each.op.for_evaluation()) {
    kept.push_back({each.name, *op});
  }
}

}  // namespace

std::vector<NamedOp> evaluation_transforms(const std::vector<NamedOp>& chain) {
  std::vector<NamedOp> kept;
  for (const NamedOp& each : chain) add_for_evaluation(each, kept);
  return kept;
}

}  // namespace slipstream
