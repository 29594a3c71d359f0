#pragma once

#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that contain other operations and apply them to some samples. Operations of any
// type can be contained, also containers, but no BatchOperation and none that FindsShape. The
// parameters of a container are generated for the sample's first image, and a field of another size
// throws UnfitSample. Whether a sample fits does not depend on random numbers: it must fit all
// operations in the container.

/// The parameters of RandomApply and RandomChoice. The parameters of the operations in the
/// container are generated again whenever they are needed, because their number differs.
struct DrawnContainer {
  RandomKey key;
  Shape shape;             ///< shape of the sample's first image
  std::size_t choice = 0;  ///< RandomApply: 1 if its operations are applied; RandomChoice: an index
};

/// Applies operations one after the other with probability p: if uniform() < p. They must not
/// change dtypes or sizes. Boxes are moved by the product of the operations' maps.
struct RandomApply {
  static constexpr std::string_view kName = "random_apply";
  std::vector<NamedOp> transforms = {};  ///< 1 to 64
  double p = 0.5;                        ///< 0 to 1

  using Drawn = DrawnContainer;

  void validate() const;
  bool touches(FieldKind kind) const;
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;
  /// With p = 1, returns the operations in their forms for evaluation; otherwise no value.
  std::optional<AnyOp> for_evaluation() const;
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape& shape) const;
  bool moves_pixels() const { return touches(FieldKind::boxes); }
};

/// Applies one of several operations. The operation at index i is applied with probability p[i] /
/// sum(p): if i is the first index for which the sum of p[0] to p[i] is above uniform() sum(p). All
/// operations must give the same dtypes and sizes.
struct RandomChoice {
  static constexpr std::string_view kName = "random_choice";
  std::vector<NamedOp> transforms = {};  ///< 1 to 64
  std::vector<double> p = {};  ///< one number for each operation, 0 or more; empty: all are equal

  using Drawn = DrawnContainer;

  void validate() const;
  bool touches(FieldKind kind) const;
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;
  /// Returns the first operation, in the form for evaluation, if the operations change dtypes or
  /// sizes of images; otherwise no value.
  std::optional<AnyOp> for_evaluation() const;
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape& shape) const;
  bool moves_pixels() const { return touches(FieldKind::boxes); }
  /// Returns true if the operations change dtypes or sizes of images.
  bool changes_images() const;
};

}  // namespace slipstream
