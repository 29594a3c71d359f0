#include "slipstream/transforms/blur.h"

#include <algorithm>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "transforms/best_code.h"
#include "transforms/elementary.h"
#include "transforms/geometry.h"
#include "transforms/interpolation.h"
#include "transforms/pixel_field.h"

namespace slipstream {
namespace {

constexpr double kLeastSigma = 0.01;

std::string needed_for(std::int64_t kernel_size) {
  return "; a kernel_size of " + std::to_string(kernel_size) + " needs more than " +
         std::to_string(kernel_size / 2) + " pixels per side";
}

/// Converts one row to float32 with `radius` mirrored pixels on each side.
template <typename T>
void widen(const T* in, std::int32_t width, std::int32_t channels, std::int32_t radius,
           float* row) {
  const auto put = [&](std::int32_t x) {
    const T* pixel = in + static_cast<std::int64_t>(mirrored(x, width)) * channels;
    for (std::int32_t c = 0; c < channels; ++c) *row++ = static_cast<float>(pixel[c]);
  };
  for (std::int32_t x = -radius; x < 0; ++x) put(x);
  const std::int64_t count = std::int64_t{width} * channels;
  // The inner part is a plain loop, which the compiler vectorizes.
  with_best_code([from = in, to = row, count] {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
  });
  row += count;
  for (std::int32_t x = width; x < width + radius; ++x) put(x);
}

/// Computes weighted sums over 2 radius + 1 values that are `apart` values apart. The loop over
/// taps is outside, so that the inner loop is vectorized while each sum keeps its order.
void filter(const DrawnBlur& blur, std::int32_t radius, std::int64_t apart, std::int64_t count,
            const float* __restrict in, float* __restrict out) {
  with_best_code([=] {
    const float outermost = blur.weight[radius];
    for (std::int64_t i = 0; i < count; ++i) out[i] = outermost * in[i];
    for (std::int32_t tap = 1; tap <= 2 * radius; ++tap) {
      const float weight = blur.weight[tap < radius ? radius - tap : tap - radius];
      const float* __restrict from = in + tap * apart;
      for (std::int64_t i = 0; i < count; ++i) out[i] = fused(weight, from[i], out[i]);
    }
  });
}

/// Like filter(), but over rows that need not be contiguous.
void filter_down(const DrawnBlur& blur, std::int32_t radius, const float* const* rows,
                 std::int64_t count, float* __restrict out) {
  with_best_code([=] {
    const float* __restrict first = rows[0];
    for (std::int64_t i = 0; i < count; ++i) out[i] = blur.weight[radius] * first[i];
    for (std::int32_t tap = 1; tap <= 2 * radius; ++tap) {
      const float weight = blur.weight[tap < radius ? radius - tap : tap - radius];
      const float* __restrict from = rows[tap];
      for (std::int64_t i = 0; i < count; ++i) out[i] = fused(weight, from[i], out[i]);
    }
  });
}

template <typename T>
void blur_image(const DrawnBlur& blur, std::int32_t radius, const ConstArray& in,
                const MutableArray& out, Scratch& scratch) {
  const auto height = static_cast<std::int32_t>(in.shape[0]);
  const auto width = static_cast<std::int32_t>(in.shape[1]);
  const auto channels = static_cast<std::int32_t>(in.shape[2]);
  const std::int64_t count = in.shape[1] * channels;
  const std::int64_t taps = 2 * radius + 1;
  const std::int64_t widened = count + (taps - 1) * channels;
  // Memory for one widened row, one sum, and a ring of as many filtered rows as one output row
  // needs, which is less than a whole filtered image.
  auto* wide = scratch.reset(DType::float32, {widened + (taps + 1) * count}).as<float>();
  float* const sum = wide + widened;
  float* const ring = sum + count;
  const auto ring_row = [&](std::int32_t y) { return ring + (y % taps) * count; };
  std::int32_t ready = 0;
  const float* rows[2 * DrawnBlur::kMaxRadius + 1];
  for (std::int32_t y = 0; y < height; ++y) {
    for (; ready <= std::min(y + radius, height - 1); ++ready) {
      widen(in.as<T>() + ready * count, width, channels, radius, wide);
      filter(blur, radius, channels, count, wide, ring_row(ready));
    }
    for (std::int32_t tap = 0; tap < taps; ++tap) {
      rows[tap] = ring_row(mirrored(y - radius + tap, height));
    }
    store_made(out.as<T>() + y * count, count, sum,
               [&](float* to) { filter_down(blur, radius, rows, count, to); });
  }
}

}  // namespace

void GaussianBlur::validate() const {
  std::vector<std::string> problems;
  if (kernel_size < 1 || kernel_size > 2 * DrawnBlur::kMaxRadius + 1 || kernel_size % 2 == 0)
    problems.push_back("gaussian_blur: kernel_size is " + std::to_string(kernel_size) +
                       "; it must be odd, 1 to 63");
  if (!(sigma[0] >= kLeastSigma && sigma[0] <= sigma[1] && sigma[1] <= 1000))
    problems.push_back("gaussian_blur: sigma is " + number_text(sigma[0]) + " to " +
                       number_text(sigma[1]) +
                       "; it must be 0.01 to 1000, the first at most the second");
  refuse(problems);
}

FieldSpec GaussianBlur::output(const FieldSpec& in) const {
  require_channels(kName, in);
  for (std::size_t side = 0; side < 2; ++side) {
    if (in.shape[side] < 0 || in.shape[side] > kernel_size / 2) continue;
    throw Refused("gaussian_blur: image '" + in.name + "' is " + to_string(in.shape) +
                  needed_for(kernel_size));
  }
  return in;
}

GaussianBlur::Drawn GaussianBlur::draw(const RandomKey& key, const Shape& shape) const {
  if (shape[0] <= kernel_size / 2 || shape[1] <= kernel_size / 2)
    throw UnfitSample("gaussian_blur: the image is " + to_string(shape) + needed_for(kernel_size));
  const double uniform = is_random() ? static_cast<double>(RandomStream(key).uniform()) : 0;
  const double deviation = sigma[0] + uniform * (sigma[1] - sigma[0]);
  const auto radius = static_cast<std::size_t>(kernel_size / 2);
  double weights[DrawnBlur::kMaxRadius + 1] = {};
  double sum = 0;
  for (std::size_t d = 0; d <= radius; ++d) {
    const auto distance = static_cast<double>(d);
    weights[d] = exact_exp(-distance * distance / (2 * deviation * deviation));
    sum += d == 0 ? weights[d] : 2 * weights[d];
  }
  Drawn drawn = {};
  for (std::size_t d = 0; d <= radius; ++d) drawn.weight[d] = static_cast<float>(weights[d] / sum);
  return drawn;
}

void GaussianBlur::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                         Scratch& scratch) const {
  const auto radius = static_cast<std::int32_t>(kernel_size / 2);
  in.dtype == DType::uint8 ? blur_image<std::uint8_t>(drawn, radius, in, out, scratch)
                           : blur_image<float>(drawn, radius, in, out, scratch);
}

}  // namespace slipstream
