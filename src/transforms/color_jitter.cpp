#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "slipstream/transforms/color.h"
#include "transforms/best_code.h"
#include "transforms/checks.h"
#include "transforms/color_math.h"
#include "transforms/pixel_field.h"
#include "transforms/pixel_planes.h"

namespace slipstream {
namespace {

constexpr double kMostFactor = 1000;
constexpr double kMostHue = 0.5;

struct Bounds {
  double low;
  double high;
  double neutral;
};

std::array<Bounds, DrawnJitter::kSteps> step_bounds(const ColorJitter& op) {
  return {{{op.brightness[0], op.brightness[1], 1},
           {op.contrast[0], op.contrast[1], 1},
           {op.saturation[0], op.saturation[1], 1},
           {op.hue[0], op.hue[1], 0}}};
}

bool changes(const Bounds& bounds) {
  return bounds.low != bounds.neutral || bounds.high != bounds.neutral;
}

float drawn_from(RandomStream& stream, const Bounds& bounds) {
  const double uniform = stream.uniform();
  return static_cast<float>(bounds.low + uniform * (bounds.high - bounds.low));
}

/// Applies the steps `first` to `last` - 1 of `drawn`.
template <int C>
void jitter(Planes<C>& planes, std::size_t count, const DrawnJitter& drawn, float mean, Range range,
            int first, int last) {
  const auto by = [&](Jitter step) {
    planes.change(
        count, [=](const Pixel<C>& pixel) { return jittered_by(step, pixel, drawn, mean, range); });
  };
  for (int place = first; place < last; ++place) {
    const Jitter step = drawn.order[place];
    if (!drawn.has(step)) continue;
    // A separate loop for each step has no branches inside, so it is vectorized.
    if (step == Jitter::brightness) by(Jitter::brightness);
    if (step == Jitter::contrast) by(Jitter::contrast);
    if (step == Jitter::saturation) by(Jitter::saturation);
    if (step == Jitter::hue) by(Jitter::hue);
  }
}

template <int C>
std::int64_t sum_levels(const Planes<C>& planes, std::size_t count, Range range) {
  std::int32_t sum = 0;  // fits: kPlaneLength times 2^20
  for (std::size_t i = 0; i < count; ++i) sum += gray_sum_term(planes.pixel(i), range);
  return sum;
}

bool changes(const DrawnJitter& drawn, int first, int last, std::initializer_list<Jitter> steps) {
  return std::any_of(drawn.order + first, drawn.order + last, [&](Jitter step) {
    return drawn.has(step) && std::find(steps.begin(), steps.end(), step) != steps.end();
  });
}

/// Returns the mean gray before contrast, which `drawn` must have, and the image at that point:
/// `out`, or `in` if no earlier step changed it.
template <int C, typename T>
std::pair<float, const T*> mean_before_contrast(const T* in, T* out, std::size_t pixels,
                                                const DrawnJitter& drawn) {
  constexpr Range kRange = kRangeOf<T>;
  const int place = drawn.contrast_place();
  const bool is_changed =
      changes(drawn, 0, place, {Jitter::brightness, Jitter::saturation, Jitter::hue});
  std::int64_t sum = 0;
  with_best_code([&] {
    if (is_changed) {
      change_planes<C>(in, out, pixels, [&](Planes<C>& planes, std::size_t count) {
        jitter(planes, count, drawn, 0.0F, kRange, 0, place);
        sum += sum_levels(planes, count, kRange);
      });
    } else {
      read_planes<C>(in, pixels, [&](const Planes<C>& planes, std::size_t count) {
        sum += sum_levels(planes, count, kRange);
      });
    }
  });
  return {mean_level(sum, static_cast<std::int64_t>(pixels), kRange), is_changed ? out : in};
}

/// Applies the steps from `first` to the last.
template <int C, typename T>
void finish(const T* in, T* out, std::size_t pixels, const DrawnJitter& drawn, float mean,
            int first) {
  with_best_code([&] {
    change_planes<C>(in, out, pixels, [&](Planes<C>& planes, std::size_t count) {
      jitter(planes, count, drawn, mean, kRangeOf<T>, first, DrawnJitter::kSteps);
    });
  });
}

template <int C, typename T>
void jitter_image(const T* in, T* out, std::size_t pixels, const DrawnJitter& drawn) {
  const T* from = in;
  float mean = 0;
  int first = 0;
  if (drawn.has(Jitter::contrast)) {
    std::tie(mean, from) = mean_before_contrast<C>(in, out, pixels, drawn);
    first = drawn.contrast_place();
  }
  // The remaining steps treat all channels alike, so separating the channels would only cost time.
  if (!changes(drawn, first, DrawnJitter::kSteps, {Jitter::saturation, Jitter::hue})) {
    return finish<1>(from, out, pixels * C, drawn, mean, first);
  }
  finish<C>(from, out, pixels, drawn, mean, first);
}

template <typename T>
void jitter_image(const ConstArray& in, const MutableArray& out, const DrawnJitter& drawn) {
  const std::size_t pixels = count_pixels(in);
  if (pixels == 0) return;
  if (in.shape[2] == 1) return jitter_image<1>(in.as<T>(), out.as<T>(), pixels, drawn);
  jitter_image<3>(in.as<T>(), out.as<T>(), pixels, drawn);
}

}  // namespace

void ColorJitter::validate() const {
  const auto within = [](const char* what, const std::array<double, 2>& range, double least,
                         double most) {
    return [=] { require_range(kName, what, range[0], range[1], least, most); };
  };
  require_all(within("the brightness", brightness, 0, kMostFactor),
              within("the contrast", contrast, 0, kMostFactor),
              within("the saturation", saturation, 0, kMostFactor),
              within("the hue", hue, -kMostHue, kMostHue));
}

FieldSpec ColorJitter::output(const FieldSpec& in) const {
  const auto bounds = step_bounds(*this);
  const bool needs_color = changes(bounds[2]) || changes(bounds[3]);
  const bool is_color = in.shape.rank == 3 && in.shape[2] == 3;
  const bool is_gray = in.shape.rank == 3 && in.shape[2] == 1;
  require_pixels(kName, in, needs_color || !is_gray ? 3 : 1, is_color || needs_color ? 3 : 1);
  return in;
}

bool ColorJitter::is_random() const {
  int changing = 0;
  bool is_drawn = false;
  for (const Bounds& bounds : step_bounds(*this)) {
    changing += changes(bounds) ? 1 : 0;
    is_drawn = is_drawn || bounds.low != bounds.high;
  }
  return is_drawn || changing > 1;
}

ColorJitter::Drawn ColorJitter::draw(const RandomKey& key, const Shape&) const {
  RandomStream stream(key);
  Drawn drawn;
  for (std::uint32_t i = DrawnJitter::kSteps - 1; i > 0; --i) {
    std::swap(drawn.order[i], drawn.order[stream.below(i + 1)]);
  }
  const auto bounds = step_bounds(*this);
  drawn.brightness = drawn_from(stream, bounds[0]);
  drawn.contrast = drawn_from(stream, bounds[1]);
  drawn.saturation = drawn_from(stream, bounds[2]);
  drawn.hue = drawn_from(stream, bounds[3]);
  return drawn;
}

void ColorJitter::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                        Scratch&) const {
  if (in.dtype == DType::uint8) return jitter_image<std::uint8_t>(in, out, drawn);
  jitter_image<float>(in, out, drawn);
}

}  // namespace slipstream
