#pragma once

#include "slipstream/transforms/op.h"

namespace slipstream {

/// A user's operation on images that draws nothing and, as it stands, writes nothing: its name, and
/// what else it does, are of those that derive from it.
struct OwnOp {
  struct Drawn {};

  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind, ConstArray, MutableArray, Scratch&) const {}
};

}  // namespace slipstream
