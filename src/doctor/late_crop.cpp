#include "doctor/late_crop.h"

#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {
namespace {

constexpr double kShrinks = 0.5;  ///< largest ratio of bytes after and before the crop

bool is_crop(const std::optional<AnyOp>& op) {
  if (!op) return false;
  const auto* random = op->get_if<RandomCrop>();
  return op->get_if<CenterCrop>() != nullptr || (random != nullptr && !random->pads());
}

/// Whether each output pixel depends only on the value of one input pixel, not on its position.
bool changes_single_pixels(const std::optional<AnyOp>& op) {
  if (!op) return false;
  if (const auto* jitter = op->get_if<ColorJitter>()) return !jitter->changes_contrast();
  const bool is_built_in =
      op->get_if<ToDtype>() || op->get_if<Normalize>() || op->get_if<Divide>() ||
      op->get_if<ConvertColor>() || op->get_if<Grayscale>() || op->get_if<RandomGrayscale>() ||
      op->get_if<RandomInvert>() || op->get_if<RandomPosterize>() || op->get_if<RandomSolarize>();
  return is_built_in || op->device_function().has_value();
}

}  // namespace

std::optional<LateCrop> find_late_crop(std::span<const std::optional<AnyOp>> chain,
                                       std::span<const double> bytes) {
  for (std::size_t i = 1; i < chain.size() && i + 1 < bytes.size(); ++i) {
    const bool shrinks = bytes[i] > 0 && bytes[i + 1] <= kShrinks * bytes[i];
    if (!shrinks || !is_crop(chain[i])) continue;
    std::size_t first = i;
    while (first > 0 && changes_single_pixels(chain[first - 1])) --first;
    if (first < i) return LateCrop{i, first};
  }
  return std::nullopt;
}

}  // namespace slipstream
