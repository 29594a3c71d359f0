#pragma once

#include "slipstream/resize.h"
#include "slipstream/transforms.h"

// visit_parameters(visit, op) calls visit(key, member, need) for every parameter of an operation,
// in the order that they are written in: the one list that reading and writing share.
namespace slipstream::chain {

enum class Need : std::uint8_t { required, optional };

template <typename Visit, typename Op>
void visit_sides(Visit& visit, Op& op) {
  visit("height", op.height, Need::required);
  visit("width", op.width, Need::required);
}

template <typename Visit>
void visit_parameters(Visit& visit, Resize& op) {
  visit_sides(visit, op);
}

template <typename Visit>
void visit_parameters(Visit& visit, CentreCrop& op) {
  visit_sides(visit, op);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomCrop& op) {
  visit_sides(visit, op);
  visit("padding", op.padding, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, RandomResizedCrop& op) {
  visit_sides(visit, op);
  visit("scale_min", op.scale_min, Need::optional);
  visit("scale_max", op.scale_max, Need::optional);
  visit("ratio_min", op.ratio_min, Need::optional);
  visit("ratio_max", op.ratio_max, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, HorizontalFlip& op) {
  visit("probability", op.probability, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit& visit, VerticalFlip& op) {
  visit("probability", op.probability, Need::optional);
}

template <typename Visit>
void visit_parameters(Visit&, ToFloat&) {}

template <typename Visit>
void visit_parameters(Visit& visit, Normalise& op) {
  visit("mean", op.mean, Need::required);
  visit("std", op.std, Need::required);
}

/// call(Op{}) for every operation that a chain file may name, until one returns true.
template <typename Call>
bool any_operation(Call call) {
  return call(Resize{}) || call(CentreCrop{}) || call(RandomCrop{}) || call(RandomResizedCrop{}) ||
         call(HorizontalFlip{}) || call(VerticalFlip{}) || call(ToFloat{}) || call(Normalise{});
}

}  // namespace slipstream::chain
