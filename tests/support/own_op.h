#pragma once

#include "slipstream/transforms/op.h"

namespace slipstream {

/// Base class of user-defined operations on images in tests. It uses no random numbers and writes
/// nothing; derived classes add a name and replace functions.
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
