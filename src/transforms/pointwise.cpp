#include "transforms/pointwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "transforms/best_code.h"
#include "transforms/geometry.h"
#include "transforms/pixel_field.h"

namespace slipstream {
namespace {

constexpr std::size_t kMostChannels = 4;
// Number of values per block: a multiple of one to four channels, so every block starts with the
// first channel.
constexpr std::size_t kRun = 192;

std::string to_text(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + number_text(value);
  return text;
}

/// The parameters of each value in a block. Expanding them per value allows one vectorized loop
/// over interleaved channels.
struct Run {
  std::array<float, kRun> mean;
  std::array<float, kRun> std;
};

Run make_run(const ChannelStatistics& statistics, std::size_t channels) {
  Run run;
  for (std::size_t i = 0; i < kRun; ++i) {
    run.mean[i] = statistics.mean[i % channels];
    run.std[i] = statistics.std[i % channels];
  }
  return run;
}

/// Normalizes all values. unit(value) converts a value to the range 0 to 1.
template <typename T, typename Unit>
void normalize(const ConstArray& in, const MutableArray& out, const Run& run, const Unit& unit) {
  const std::size_t count = in.shape.elements();
  with_best_code([&] {
    for (std::size_t at = 0; at < count; at += kRun) {
      const T* __restrict from = in.as<T>() + at;
      float* __restrict to = out.as<float>() + at;
      const std::size_t length = std::min(kRun, count - at);
      for (std::size_t i = 0; i < length; ++i) {
        to[i] = normalized(unit(static_cast<float>(from[i])), run.mean[i], run.std[i]);
      }
    }
  });
}

}  // namespace

void ToDtype::validate() const {
  if (dtype == DType::float32) return;
  throw Refused("to_dtype: the dtype is " + std::string(to_string(dtype)) + "; it must be float32");
}

FieldSpec ToDtype::output(const FieldSpec& in) const {
  if (in.dtype == DType::uint8 || in.dtype == DType::float32) return as_f32(in);
  throw Refused("to_dtype: image '" + in.name + "' is " + std::string(to_string(in.dtype)) + ", " +
                to_string(in.shape) + "; it must be uint8 or float32");
}

void ToDtype::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  const std::size_t count = in.shape.elements();
  if (in.dtype == DType::float32) {
    std::copy_n(in.as<float>(), count, out.as<float>());
    return;
  }
  const auto* levels = in.as<std::uint8_t>();
  auto* to = out.as<float>();
  if (!scale) {
    std::copy_n(levels, count, to);
    return;
  }
  with_best_code([=] {
    for (std::size_t i = 0; i < count; ++i) to[i] = from_level(static_cast<float>(levels[i]));
  });
}

void Normalize::validate() const {
  const auto is_for_all = [&](const std::vector<double>& values) {
    return values.size() == 1 || values.size() == channels();
  };
  const bool are_channels_valid =
      channels() >= 1 && channels() <= kMostChannels && is_for_all(mean) && is_for_all(std);
  const auto is_number = [](double value) { return std::isfinite(static_cast<float>(value)); };
  const auto is_scale = [&](double value) {
    return is_number(value) && static_cast<float>(value) > 0;
  };
  if (are_channels_valid && std::all_of(mean.begin(), mean.end(), is_number) &&
      std::all_of(std.begin(), std.end(), is_scale)) {
    return;
  }
  throw Refused("normalize: mean is " + to_text(mean) + ", std is " + to_text(std) +
                "; each must have one number, or one for each channel (one to four); all must be "
                "finite, and std must be above 0");
}

FieldSpec Normalize::output(const FieldSpec& in) const {
  const std::size_t most = channels() == 1 ? kMostChannels : channels();
  require_pixels(kName, in, static_cast<std::int64_t>(channels()), static_cast<std::int64_t>(most));
  return as_f32(in);
}

ChannelStatistics to_float32(const Normalize& op) {
  ChannelStatistics out{};
  for (std::size_t c = 0; c < (op.channels() == 1 ? kMostChannels : op.channels()); ++c) {
    out.mean[c] = static_cast<float>(op.channel_mean(c));
    out.std[c] = static_cast<float>(op.channel_std(c));
  }
  return out;
}

void Normalize::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  const Run run = make_run(to_float32(*this), static_cast<std::size_t>(in.shape[2]));
  if (in.dtype == DType::uint8)
    return normalize<std::uint8_t>(in, out, run, [](float value) { return from_level(value); });
  normalize<float>(in, out, run, [](float value) { return value; });
}

}  // namespace slipstream
