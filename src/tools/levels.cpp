#include "tools/levels.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "slipstream/ops/color.h"
#include "slipstream/ops/transforms.h"

namespace slipstream {
namespace {

std::byte level_of(double unit) {
  if (!(unit > 0)) return std::byte{0};
  return static_cast<std::byte>(std::lround(std::min(unit, 1.0) * 255));
}

std::optional<ShownLevels::Undo> undo_of(const AnyOp& op, std::size_t channels) {
  ShownLevels::Undo undo;
  if (const auto* normalize = op.get_if<Normalize>()) {
    for (std::size_t c = 0; c < channels; ++c) {
      undo.factor[c] = normalize->std_of(c);
      undo.offset[c] = normalize->mean_of(c);
    }
    return undo;
  }
  const auto* divide = op.get_if<Divide>();
  if (divide == nullptr) return std::nullopt;
  undo.factor.fill(divide->divisor);
  return undo;
}

}  // namespace

ShownLevels levels_after(const std::vector<NamedOp>& chain, FieldSpec image) {
  ShownLevels levels;
  for (const auto& [name, op] : chain) {
    if (!op.touches(image.kind)) continue;
    const auto channels = static_cast<std::size_t>(image.shape[2]);
    if (const auto undo = undo_of(op, channels)) levels.undone.insert(levels.undone.begin(), *undo);
    const auto* to_dtype = op.get_if<ToDtype>();
    const bool keeps_levels = op.get_if<Divide>() || op.get_if<ConvertColor>() ||
                              (to_dtype != nullptr && !to_dtype->scale);
    if (image.dtype == DType::uint8) levels.white = keeps_levels ? 255 : 1;
    image = op.output(image);
  }
  return levels;
}

HostArray rgb_of(const ConstArray& image, const ShownLevels& levels) {
  HostArray rgb;
  const MutableArray out = rgb.reset(DType::uint8, {image.shape[0], image.shape[1], 3});
  const auto channels = static_cast<std::size_t>(image.shape[2]);
  const std::size_t values = image.shape.elements() / channels * 3;
  for (std::size_t i = 0; i < values; ++i) {
    const std::size_t channel = channels < 3 ? 0 : i % 3;
    const std::size_t from = i / 3 * channels + channel;
    if (image.dtype == DType::uint8) {
      out.data[i] = image.data[from];
      continue;
    }
    double value = image.as<float>()[from];
    for (const ShownLevels::Undo& undo : levels.undone)
      value = value * undo.factor[channel] + undo.offset[channel];
    out.data[i] = level_of(value / levels.white);
  }
  return rgb;
}

}  // namespace slipstream
