#include <cmath>
#include <string>

#include "slipstream/error.h"
#include "slipstream/transforms.h"

namespace slipstream {
namespace {

constexpr std::int64_t kLevels = 256;
constexpr std::int64_t kChannels = 3;

float from_level(std::int64_t level) { return static_cast<float>(level) / 255.0f; }

FieldSpec as_f32(const FieldSpec& in) {
  FieldSpec out = in;
  out.dtype = DType::f32;
  return out;
}

[[noreturn]] void refuse(std::string_view op, const FieldSpec& in, const char* must) {
  throw Refused(std::string(op) + ": image '" + in.name + "' is " + std::string(name_of(in.dtype)) +
                ", " + to_string(in.shape) + "; it must be " + must);
}

std::string text_of(const std::array<double, 3>& values) {
  return std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]);
}

}  // namespace

FieldSpec ToFloat::output(const FieldSpec& in) const {
  if (in.dtype != DType::u8) refuse(kName, in, "u8");
  return as_f32(in);
}

void ToFloat::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  const std::size_t count = in.shape.elements();
  const auto* levels = in.as<std::uint8_t>();
  auto* to = out.as<float>();
  for (std::size_t i = 0; i < count; ++i) to[i] = from_level(levels[i]);
}

void Normalise::validate() const {
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const auto scale = static_cast<float>(std[c]);
    const bool is_sound = std::isfinite(mean[c]) && std::isfinite(scale) && scale > 0;
    if (is_sound) continue;
    throw Refused("normalise: mean is " + text_of(mean) + ", std is " + text_of(std) +
                  "; all must be numbers, and std above 0");
  }
}

FieldSpec Normalise::output(const FieldSpec& in) const {
  const bool is_number = in.dtype == DType::u8 || in.dtype == DType::f32;
  if (!is_number || in.shape.rank != 3 || in.shape[2] != kChannels) {
    refuse(kName, in, "u8 or f32, height x width x 3");
  }
  return as_f32(in);
}

void Normalise::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch& scratch) const {
  const auto normalised = [this](float value, std::int64_t c) {
    const auto at = static_cast<std::size_t>(c);
    return (value - static_cast<float>(mean[at])) / static_cast<float>(std[at]);
  };
  const std::size_t pixels = in.shape.elements() / kChannels;
  auto* to = out.as<float>();
  if (in.dtype == DType::f32) {
    const auto* from = in.as<float>();
    for (std::size_t i = 0; i < pixels; ++i, from += kChannels, to += kChannels) {
      for (std::int64_t c = 0; c < kChannels; ++c) to[c] = normalised(from[c], c);
    }
    return;
  }
  auto* table = scratch.reset(DType::f32, {kLevels, kChannels}).as<float>();
  for (std::int64_t i = 0; i < kLevels * kChannels; ++i) {
    table[i] = normalised(from_level(i / kChannels), i % kChannels);
  }
  const auto* from = in.as<std::uint8_t>();
  for (std::size_t i = 0; i < pixels; ++i, from += kChannels, to += kChannels) {
    for (std::int64_t c = 0; c < kChannels; ++c) to[c] = table[from[c] * kChannels + c];
  }
}

}  // namespace slipstream
