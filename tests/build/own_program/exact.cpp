#include "slipstream/transforms/pixel_op.h"

namespace {

SLIPSTREAM_PIXEL_FUNCTION(Squared, {
  float less;
  float operator()(float value) const { return value * value - less; }
});

}  // namespace

/// Returns true if a pixel function rounds its product before it subtracts, although the CPU could
/// fuse the two operations into one with a single rounding.
bool rounds_twice() {
  using namespace slipstream;
  constexpr float kValue = 1.0F + 0x1p-12F;
  const AnyOp op{PixelOp{Squared{1.0F + 0x1p-11F}}};
  HostArray in;
  HostArray out;
  Scratch scratch;
  const std::byte nothing{};
  *in.reset(DType::float32, {1, 1, 1}).as<float>() = kValue;
  op.apply(&nothing, FieldKind::image, in.view(), out.reset(DType::float32, {1, 1, 1}), scratch);
  return *out.view().as<float>() == 0.0F;
}
