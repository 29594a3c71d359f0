#include "slipstream/transforms/adjust.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "transforms/adjust_math.h"
#include "transforms/best_code.h"
#include "transforms/checks.h"
#include "transforms/geometry.h"
#include "transforms/pixel_field.h"

namespace slipstream {
namespace {

constexpr std::size_t kMostChannels = 4;
constexpr std::size_t kLevels = 256;

/// The new level of each level.
using LevelTable = std::array<std::uint8_t, kLevels>;

template <typename Change>
LevelTable make_table(const Change& change) {
  LevelTable table;
  for (std::size_t level = 0; level < kLevels; ++level)
    table[level] = static_cast<std::uint8_t>(change(static_cast<float>(level)));
  return table;
}

/// Replaces each value by change(value), which is a function of this value only.
template <typename Change>
void change_values(const ConstArray& in, const MutableArray& out, const Change& change) {
  const std::size_t count = in.shape.elements();
  const auto change_all = [&]<typename T>(const T* __restrict from, T* __restrict to) {
    with_best_code([=] {
      for (std::size_t i = 0; i < count; ++i)
        to[i] = static_cast<T>(change(static_cast<float>(from[i]), kRangeOf<T>));
    });
  };
  if (in.dtype == DType::uint8) return change_all(in.as<std::uint8_t>(), out.as<std::uint8_t>());
  change_all(in.as<float>(), out.as<float>());
}

/// Replaces each level by that of the table of its channel.
void look_up(const LevelTable* tables, const ConstArray& in, const MutableArray& out) {
  const auto channels = static_cast<std::size_t>(in.shape[2]);
  const auto* from = in.as<std::uint8_t>();
  auto* to = out.as<std::uint8_t>();
  for (std::size_t i = 0; i < in.shape.elements(); i += channels)
    for (std::size_t c = 0; c < channels; ++c) to[i + c] = tables[c][from[i + c]];
}

template <typename T>
void sharpen(const ConstArray& in, const MutableArray& out, float weight) {
  const std::int64_t channels = in.shape[2];
  const std::int64_t row = in.shape[1] * channels;
  copy_all(in, out);
  for (std::int64_t y = 1; y + 1 < in.shape[0]; ++y) {
    const T* const from = in.as<T>() + y * row;
    T* const to = out.as<T>() + y * row;
    with_best_code([=, last = row - channels] {
      const T* __restrict above = from - row;
      const T* __restrict middle = from;
      const T* __restrict below = from + row;
      T* __restrict made = to;
      for (std::int64_t i = channels; i < last; ++i) {
        const auto sum_of_row = [i, channels](const T* values, float sum, bool has_center) {
          sum += static_cast<float>(values[i - channels]);
          if (has_center) sum += static_cast<float>(values[i]);
          return sum + static_cast<float>(values[i + channels]);
        };
        const float around =
            sum_of_row(below, sum_of_row(middle, sum_of_row(above, 0.0F, true), false), true);
        made[i] =
            static_cast<T>(sharpened(static_cast<float>(middle[i]), around, weight, kRangeOf<T>));
      }
    });
  }
}

/// Returns the extremes of each channel. NaN is ignored.
/// REQUIRES: the image has pixels
template <typename T>
std::array<Extremes, kMostChannels> find_extremes(const ConstArray& in) {
  // A number of values that is a multiple of every number of channels: value i of a block belongs
  // to channel i modulo the number of channels. The loop over a block is vectorized.
  constexpr std::size_t kBlock = 48;
  const T* const from = in.as<T>();
  const std::size_t count = in.shape.elements();
  const auto channels = static_cast<std::size_t>(in.shape[2]);
  using Limits = std::numeric_limits<T>;
  std::array<T, kBlock> least, most;
  least.fill(Limits::has_infinity ? Limits::infinity() : Limits::max());
  most.fill(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
  const auto take = [&](std::size_t at, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
      const T value = from[at + i];
      least[i] = value < least[i] ? value : least[i];
      most[i] = value > most[i] ? value : most[i];
    }
  };
  with_best_code([&] {
    std::size_t at = 0;
    for (; at + kBlock <= count; at += kBlock) take(at, kBlock);
    take(at, count - at);
  });
  std::array<Extremes, kMostChannels> extremes{};
  for (std::size_t i = 0; i < kBlock; ++i) {
    Extremes& of = extremes[i % channels];
    const auto low = static_cast<float>(least[i]), high = static_cast<float>(most[i]);
    of.least = i < channels || low < of.least ? low : of.least;
    of.most = i < channels || high > of.most ? high : of.most;
  }
  return extremes;
}

void stretch_levels(const ConstArray& in, const MutableArray& out) {
  const auto extremes = find_extremes<std::uint8_t>(in);
  std::array<LevelTable, kMostChannels> tables;
  for (std::size_t c = 0; c < kMostChannels; ++c)
    tables[c] =
        make_table([&](float level) { return stretched(level, extremes[c], Range::levels); });
  look_up(tables.data(), in, out);
}

void stretch_floats(const ConstArray& in, const MutableArray& out) {
  const auto extremes = find_extremes<float>(in);
  const auto channels = static_cast<std::size_t>(in.shape[2]);
  for (std::size_t i = 0; i < in.shape.elements(); i += channels)
    for (std::size_t c = 0; c < channels; ++c)
      out.as<float>()[i + c] = stretched(in.as<float>()[i + c], extremes[c], Range::unit);
}

/// Returns the table that equalizes channel `c`.
LevelTable make_equalizer(const ConstArray& in, std::size_t c) {
  std::array<std::int64_t, kLevels> count{};
  const auto* from = in.as<std::uint8_t>();
  for (std::size_t i = c; i < in.shape.elements(); i += static_cast<std::size_t>(in.shape[2]))
    ++count[from[i]];
  const auto largest = std::find_if(count.rbegin(), count.rend(), [](auto n) { return n > 0; });
  const std::int64_t step = equalizer_step(static_cast<std::int64_t>(count_pixels(in)), *largest);
  std::int64_t below = 0;
  return make_table([&](float level) {
    const std::int32_t made = equalized(static_cast<std::int32_t>(level), below, step);
    below += count[static_cast<std::size_t>(level)];
    return made;
  });
}

void equalize_levels(const ConstArray& in, const MutableArray& out) {
  std::array<LevelTable, kMostChannels> tables;
  for (std::size_t c = 0; c < static_cast<std::size_t>(in.shape[2]); ++c)
    tables[c] = make_equalizer(in, c);
  look_up(tables.data(), in, out);
}

}  // namespace

void RandomInvert::validate() const { require_probability(kName, p); }

FieldSpec RandomInvert::output(const FieldSpec& in) const {
  require_channels(kName, in);
  return in;
}

RandomInvert::Drawn RandomInvert::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomInvert::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  if (!drawn.applies) return copy_all(in, out);
  change_values(in, out, [](float v, Range range) { return inverted(v, range); });
}

void RandomPosterize::validate() const {
  require_all(
      [&] {
        if (bits >= 0 && bits <= 8) return;
        throw Refused("random_posterize: bits is " + std::to_string(bits) + "; it must be 0 to 8");
      },
      [&] { require_probability(kName, p); });
}

FieldSpec RandomPosterize::output(const FieldSpec& in) const {
  require_channels(kName, in);
  return in;
}

RandomPosterize::Drawn RandomPosterize::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomPosterize::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                            Scratch&) const {
  if (!drawn.applies) return copy_all(in, out);
  change_values(in, out, [kept = static_cast<std::int32_t>(bits)](float v, Range range) {
    return posterized(v, kept, range);
  });
}

void RandomSolarize::validate() const {
  require_all([&] { require_number(kName, "the threshold", threshold); },
              [&] { require_probability(kName, p); });
}

FieldSpec RandomSolarize::output(const FieldSpec& in) const {
  require_channels(kName, in);
  const double most = in.dtype == DType::uint8 ? 255 : 1;
  if (threshold <= most) return in;
  throw Refused("random_solarize: the threshold is " + number_text(threshold) + ", but image '" +
                in.name + "' is " + std::string(to_string(in.dtype)) + "; it must be at most " +
                number_text(most));
}

RandomSolarize::Drawn RandomSolarize::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomSolarize::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                           Scratch&) const {
  if (!drawn.applies) return copy_all(in, out);
  change_values(in, out, [least = static_cast<float>(threshold)](float v, Range range) {
    return solarized(v, least, range);
  });
}

void RandomAdjustSharpness::validate() const {
  require_all(
      [&] {
        require_number(kName, "the sharpness_factor", sharpness_factor);
        if (sharpness_factor >= 0) return;
        throw Refused("random_adjust_sharpness: the sharpness_factor is " +
                      number_text(sharpness_factor) + "; it must be 0 or more");
      },
      [&] { require_probability(kName, p); });
}

FieldSpec RandomAdjustSharpness::output(const FieldSpec& in) const {
  require_channels(kName, in);
  return in;
}

RandomAdjustSharpness::Drawn RandomAdjustSharpness::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomAdjustSharpness::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                                  Scratch&) const {
  if (!drawn.applies) return copy_all(in, out);
  const float weight = sharpness_weight(sharpness_factor);
  if (in.dtype == DType::uint8) return sharpen<std::uint8_t>(in, out, weight);
  sharpen<float>(in, out, weight);
}

void RandomAutocontrast::validate() const { require_probability(kName, p); }

FieldSpec RandomAutocontrast::output(const FieldSpec& in) const {
  require_channels(kName, in);
  return in;
}

RandomAutocontrast::Drawn RandomAutocontrast::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomAutocontrast::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                               Scratch&) const {
  if (!drawn.applies || count_pixels(in) == 0) return copy_all(in, out);
  if (in.dtype == DType::uint8) return stretch_levels(in, out);
  stretch_floats(in, out);
}

void RandomEqualize::validate() const { require_probability(kName, p); }

FieldSpec RandomEqualize::output(const FieldSpec& in) const {
  require_channels(kName, in);
  if (in.dtype == DType::uint8) return in;
  throw Refused("random_equalize: image '" + in.name +
                "' is float32; it must be uint8: put random_equalize before the operation that "
                "converts images to float32");
}

RandomEqualize::Drawn RandomEqualize::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomEqualize::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                           Scratch&) const {
  if (!drawn.applies || count_pixels(in) == 0) return copy_all(in, out);
  equalize_levels(in, out);
}

}  // namespace slipstream
