#include <cstdint>
#include <span>

#include "transforms/best_code.h"
#include "transforms/interpolation.h"
#include "transforms/pixel_field.h"
#include "transforms/resampling.h"
#include "transforms/resize_filter.h"
#include "transforms/resize_kernels.h"

namespace slipstream {
namespace {

/// Inputs and weights of each output of one axis.
class Axis {
 public:
  Axis(const Resampling& how, std::int64_t in, std::int64_t out)
      : kind_(filter_kind(how.interpolation, how.antialias)),
        in_(static_cast<std::int32_t>(in)),
        out_(out),
        scale_(static_cast<float>(in) / static_cast<float>(out)),
        most_inputs_(is_filtered_axis(kind_, how.antialias, in, out)
                         ? ResizeFilter(kind_, in, out).most_inputs()
                         : 0) {}

  /// Returns true if outputs are filtered. Otherwise every output has two neighbors.
  bool is_filtered() const { return most_inputs_ > 0; }
  /// REQUIRES: place()
  const Neighbors& neighbors(std::int64_t i) const { return neighbors_[i]; }
  std::span<const Neighbors> all_neighbors() const {
    return {neighbors_, static_cast<std::size_t>(out_)};
  }

  /// Returns the number of leading outputs (never the last) whose neighbors come before the last
  /// input.
  /// REQUIRES: place(), and is_filtered() is false
  std::int64_t inner() const {
    std::int64_t i = 0;
    while (i + 1 < out_ && neighbors_[i].second + 1 < in_) ++i;
    return i;
  }

  /// Number of bytes that place() needs.
  std::int64_t bytes() const {
    const auto each =
        is_filtered() ? static_cast<std::size_t>(most_inputs_) * sizeof(float) : sizeof(Neighbors);
    return out_ * static_cast<std::int64_t>(each);
  }
  void place(std::byte* memory) {
    weights_ = reinterpret_cast<float*>(memory);
    neighbors_ = reinterpret_cast<Neighbors*>(memory);
    for (std::int64_t i = 0; !is_filtered() && i < out_; ++i) {
      neighbors_[i] = resized_axis(static_cast<std::int32_t>(i), in_, scale_);
    }
    if (!is_filtered()) return;
    const ResizeFilter filter(kind_, in_, out_);
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
    const ResizeFilter filter(kind_, in_, out_);
    const std::int64_t begin = filter.begin(i);
    const std::int64_t end = filter.end(i);
    const float* weight = weights_ + i * most_inputs_;
    for (std::int64_t at = begin; at < end; ++at) take(at, *weight++, at == begin);
  }

 private:
  FilterKind kind_;
  std::int32_t in_;
  std::int64_t out_;
  float scale_;
  std::int64_t most_inputs_;
  float* weights_ = nullptr;
  Neighbors* neighbors_ = nullptr;
};

template <int C>
void filter_row(const Axis& across, std::int64_t width, const float* in, float* out) {
  for (std::int64_t x = 0; x < width; ++x, out += C) {
    across.for_each_input(x, [&](std::int64_t at, float weight, bool is_first) {
      for (int c = 0; c < C; ++c) {
        const float value = in[at * C + c];
        out[c] = is_first ? weight * value : fused(weight, value, out[c]);
      }
    });
  }
}

/// Interpolates N values between two pixels. All are computed before the first is stored, because
/// `out` might alias the inputs as far as the compiler knows.
template <int N>
[[gnu::always_inline]] inline void put_between(const float* first, const float* second,
                                               float weight, float* out) {
  float values[N];
  for (int i = 0; i < N; ++i) values[i] = between(first[i], second[i], weight);
  for (int i = 0; i < N; ++i) out[i] = values[i];
}

/// Interpolates one row. For the first `inner` pixels, which have another input pixel after their
/// neighbors, four values are computed at once even for three channels: that is one vector, and the
/// next pixel overwrites the fourth value.
template <int C>
void narrow_row(const Axis& across, std::int64_t inner, std::int64_t width, const float* in,
                float* out) {
  constexpr int kAtOnce = C + (C == 3 ? 1 : 0);
  for (std::int64_t x = 0; x < inner; ++x) {
    const Neighbors& of = across.neighbors(x);
    const float* first = in + std::ptrdiff_t{of.first} * C;
    put_between<kAtOnce>(first, first + C, of.weight, out + x * C);
  }
  for (std::int64_t x = inner; x < width; ++x) {
    const Neighbors& of = across.neighbors(x);
    put_between<C>(in + std::ptrdiff_t{of.first} * C, in + std::ptrdiff_t{of.second} * C, of.weight,
                   out + x * C);
  }
}

void shorten(const Axis& down, std::int64_t y, const float* in, std::int64_t count,
             float* __restrict out) {
  if (!down.is_filtered()) {
    const Neighbors of = down.neighbors(y);
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

/// Returns values as floats, converted into `to` unless they are floats already.
const float* widened(const float* in, std::int64_t, float*) { return in; }
const float* widened(const std::uint8_t* in, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(in[i]);
  return to;
}

/// Interpolates RGB rows with AVX-512. Returns the number of rows done: all or none.
std::int64_t narrowed_at_once(const Axis&, const Region&, const float*, std::int64_t, float*) {
  return 0;
}
std::int64_t narrowed_at_once(const Axis& across, const Region& region, const std::uint8_t* in,
                              std::int64_t stride, float* out) {
#if defined(__x86_64__)
  if (has_avx512() && !across.is_filtered()) {
    return avx512::between_rows(across.all_neighbors(), region.width, in, stride, region.height,
                                out);
  }
#endif
  return 0;
}

template <int C, typename T>
void resample_pixels(const Resampling& how, const ConstArray& in, const Region& region,
                     const MutableArray& out, Scratch& scratch) {
  const std::int64_t width = out.shape[1];
  const std::int64_t count = width * C;
  Axis across(how, region.width, width);
  Axis down(how, region.height, out.shape[0]);
  const std::int64_t floats = (region.height + 1) * count + region.width * C;
  std::byte* const memory =
      scratch.reset(DType::uint8, {across.bytes() + down.bytes() + 4 * floats}).data;
  across.place(memory);
  down.place(memory + across.bytes());
  auto* const narrowed = reinterpret_cast<float*>(memory + across.bytes() + down.bytes());
  float* const row = narrowed + region.height * count;
  const T* const first = in.as<T>() + (region.top * in.shape[1] + region.left) * C;
  const std::int64_t stride = in.shape[1] * C;
  const std::int64_t inner = across.is_filtered() ? 0 : across.inner();
  const std::int64_t done = C == 3 ? narrowed_at_once(across, region, first, stride, narrowed) : 0;
  with_best_code([=, &across, &region] {
    for (std::int64_t y = done; y < region.height; ++y) {
      const float* from = widened(first + y * stride, region.width * C, row + count);
      float* const to = narrowed + y * count;
      across.is_filtered() ? filter_row<C>(across, width, from, to)
                           : narrow_row<C>(across, inner, width, from, to);
    }
  });
  for (std::int64_t y = 0; y < out.shape[0]; ++y) {
    store_made(out.as<T>() + y * count, count, row,
               [&](float* to) { shorten(down, y, narrowed, count, to); });
  }
}

template <typename T>
void resample_as(const Resampling& how, const ConstArray& in, const Region& region,
                 const MutableArray& out, Scratch& scratch) {
  switch (in.shape[2]) {
    case 1:
      return resample_pixels<1, T>(how, in, region, out, scratch);
    case 2:
      return resample_pixels<2, T>(how, in, region, out, scratch);
    case 3:
      return resample_pixels<3, T>(how, in, region, out, scratch);
    default:
      resample_pixels<4, T>(how, in, region, out, scratch);
  }
}

}  // namespace

void resample_floats(const Resampling& how, const ConstArray& in, const Region& region,
                     const MutableArray& out, Scratch& scratch) {
  in.dtype == DType::uint8 ? resample_as<std::uint8_t>(how, in, region, out, scratch)
                           : resample_as<float>(how, in, region, out, scratch);
}

}  // namespace slipstream
