#include <cstdint>

#include "ops/best_code.h"
#include "ops/resampling.h"
#include "slipstream/interpolation.h"
#include "slipstream/triangle_filter.h"

namespace slipstream {
namespace {

/// Which inputs each output of one axis is made of.
class Axis {
 public:
  Axis(std::int64_t in, std::int64_t out, bool antialias)
      : in_(static_cast<std::int32_t>(in)),
        out_(out),
        scale_(static_cast<float>(in) / static_cast<float>(out)),
        most_inputs_(antialias && in > out ? TriangleFilter(in, out).most_inputs() : 0) {}

  /// Otherwise every output has two neighbours.
  bool is_filtered() const { return most_inputs_ > 0; }
  Neighbours neighbours(std::int64_t i) const {
    return resized_axis(static_cast<std::int32_t>(i), in_, scale_);
  }

  /// Of the weights, in floats; 0 unless it is filtered.
  std::int64_t size() const { return out_ * most_inputs_; }
  void place(float* weights) {
    weights_ = weights;
    if (!is_filtered()) return;
    const TriangleFilter filter(in_, out_);
    for (std::int64_t i = 0; i < out_; ++i) {
      const double sum = filter.sum(i);
      float* weight = weights_ + i * most_inputs_;
      for (std::int64_t at = filter.begin(i); at < filter.end(i); ++at) {
        *weight++ = filtered_weight(filter.weight(i, at, sum));
      }
    }
  }
  /// Calls take(input, weight, is_first) for every input of output i. REQUIRES: place()
  template <typename Take>
  void for_each_input(std::int64_t i, Take take) const {
    const TriangleFilter filter(in_, out_);
    const std::int64_t begin = filter.begin(i);
    const std::int64_t end = filter.end(i);
    const float* weight = weights_ + i * most_inputs_;
    for (std::int64_t at = begin; at < end; ++at) take(at, *weight++, at == begin);
  }

 private:
  std::int32_t in_;
  std::int64_t out_;
  float scale_;
  std::int64_t most_inputs_;
  float* weights_ = nullptr;
};

template <typename T>
void narrow_row(const Axis& across, std::int64_t width, std::int64_t channels, const T* in,
                float* out) {
  for (std::int64_t x = 0; x < width; ++x, out += channels) {
    if (across.is_filtered()) {
      across.for_each_input(x, [&](std::int64_t at, float weight, bool is_first) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto value = static_cast<float>(in[at * channels + c]);
          out[c] = is_first ? weight * value : fused(weight, value, out[c]);
        }
      });
      continue;
    }
    const Neighbours of = across.neighbours(x);
    const T* first = in + of.first * channels;
    const T* second = in + of.second * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      out[c] = between(static_cast<float>(first[c]), static_cast<float>(second[c]), of.weight);
    }
  }
}

void shorten(const Axis& down, std::int64_t y, const float* in, std::int64_t count,
             float* __restrict out) {
  if (!down.is_filtered()) {
    const Neighbours of = down.neighbours(y);
    const float* first = in + of.first * count;
    const float* second = in + of.second * count;
    const float weight = of.weight;
    return with_best_code([=] {
      for (std::int64_t i = 0; i < count; ++i) out[i] = between(first[i], second[i], weight);
    });
  }
  down.for_each_input(y, [&](std::int64_t at, float weight, bool is_first) {
    const float* row = in + at * count;
    with_best_code([=] {
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = is_first ? weight * row[i] : fused(weight, row[i], out[i]);
      }
    });
  });
}

template <typename T>
void store(const float* __restrict from, std::int64_t count, T* __restrict to) {
  with_best_code([=] {
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (sizeof(T) == 1) {
        to[i] = static_cast<T>(to_level(from[i]));
      } else {
        to[i] = from[i];
      }
    }
  });
}

template <typename T>
void resample_as(bool antialias, const ConstArray& in, const Region& region,
                 const MutableArray& out, Scratch& scratch) {
  const std::int64_t channels = in.shape[2];
  const std::int64_t width = out.shape[1];
  const std::int64_t count = width * channels;
  Axis across(region.width, width, antialias);
  Axis down(region.height, out.shape[0], antialias);
  const std::int64_t floats = (region.height + 1) * count + across.size() + down.size();
  auto* narrowed = scratch.reset(DType::f32, {floats}).as<float>();
  float* const row = narrowed + region.height * count;
  across.place(row + count);
  down.place(row + count + across.size());
  const T* const first = in.as<T>() + (region.top * in.shape[1] + region.left) * channels;
  const std::int64_t stride = in.shape[1] * channels;
  with_best_code([=, &across] {
    for (std::int64_t y = 0; y < region.height; ++y) {
      narrow_row(across, width, channels, first + y * stride, narrowed + y * count);
    }
  });
  for (std::int64_t y = 0; y < out.shape[0]; ++y) {
    shorten(down, y, narrowed, count, row);
    store(row, count, out.as<T>() + y * count);
  }
}

}  // namespace

void resample_floats(bool antialias, const ConstArray& in, const Region& region,
                     const MutableArray& out, Scratch& scratch) {
  in.dtype == DType::u8 ? resample_as<std::uint8_t>(antialias, in, region, out, scratch)
                        : resample_as<float>(antialias, in, region, out, scratch);
}

}  // namespace slipstream
