#pragma once

#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {

// The transforms of `starved` in their most obvious form, which is slow: the whole image is
// converted to a tensor before it is cropped, and every operation is a separate loop over the
// image. Each transform after PlainToTensor uses the random numbers of the index before it in the
// chain. So it has the same bits as its equivalent in a chain without PlainToTensor. Images are
// uint8 with three channels.

/// Copies the image.
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

/// Equivalent to RandomCrop, but without decoding only a part of the image.
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

/// Equivalent to RandomMask with `dilate`. Four loops: generate a number from 0 to 1 for each
/// pixel, select those below the probability, add their neighbors, and clear these pixels.
struct PlainMask : RandomMask {
  static constexpr std::string_view kName = "plain_mask";

  FieldSpec output(const FieldSpec& in) const;
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// Equivalent to ConvertColor: converts to floats, and then computes one channel after the other.
struct PlainColor : ConvertColor {
  static constexpr std::string_view kName = "plain_color";

  FieldSpec output(const FieldSpec& in) const;
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

}  // namespace slipstream
