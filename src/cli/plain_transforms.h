#pragma once

#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {

// The transforms of `starved` as one would write them first: the whole image becomes a tensor
// before it is cropped, and every thought is a pass over the image. Behind PlainToTensor, each
// draws what the operation that it stands for draws one place further to the front of a chain
// without PlainToTensor, and gives the same bits. Images of levels (uint8) of three channels.

/// A copy of the image.
struct PlainToTensor {
  static constexpr std::string_view kName = "plain_to_tensor";

  struct Drawn {};

  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// RandomCrop, without what spares it the rest of the image.
struct PlainCrop {
  static constexpr std::string_view kName = "plain_crop";
  RandomCrop crop;

  using Drawn = RandomCrop::Drawn;

  void validate() const { crop.validate(); }
  bool touches(FieldKind kind) const { return crop.touches(kind); }
  FieldSpec output(const FieldSpec& in) const { return crop.output(in); }
  bool is_random() const { return true; }
  std::optional<AnyOp> for_evaluation() const { return crop.for_evaluation(); }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const {
    crop.apply(drawn, kind, in, out, scratch);
  }
};

/// RandomMask with `dilate`: a number from 0 to 1 for each pixel, those below the probability, the
/// pixels beside these, and then the image without them.
struct PlainMask : RandomMask {
  static constexpr std::string_view kName = "plain_mask";

  FieldSpec output(const FieldSpec& in) const;
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// ConvertColor: to floats, then one channel after the other.
struct PlainColor : ConvertColor {
  static constexpr std::string_view kName = "plain_color";

  FieldSpec output(const FieldSpec& in) const;
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

}  // namespace slipstream
