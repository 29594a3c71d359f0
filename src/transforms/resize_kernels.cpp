#include "transforms/resize_kernels.h"

#include <algorithm>

#include "transforms/best_code.h"

namespace slipstream {

std::span<const ResizeKernels> resize_kernels() {
  static constexpr ResizeKernels kAll[] = {
    {"plain", plain::filter_rows, 0, plain::filter_columns},
#if defined(__x86_64__)
    {"sse2", sse2::filter_rows, sse2::kOverread, sse2::filter_columns},
    {"avx2", avx2::filter_rows, avx2::kOverread, avx2::filter_columns},
    {"avx512", avx512::filter_rows, 0, avx512::filter_columns},
#endif
  };
#if defined(__x86_64__)
  // SSE2 is part of x86-64.
  static const std::size_t kUsable =
      // has_avx512() implies AVX2, so the usable ones are always the first of the list.
      2 + (__builtin_cpu_supports("avx2") ? 1 : 0) + (has_avx512() ? 1 : 0);
  return std::span(kAll).first(kUsable);
#else
  return kAll;
#endif
}

namespace plain {
namespace {

constexpr std::int32_t kHalf = 1 << (AxisFilter::kFractionBits - 1);

std::int32_t weight(std::int16_t high, std::int16_t low) {
  return high * (1 << AxisFilter::kLowBits) + low;
}

std::uint8_t to_level(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> AxisFilter::kFractionBits, 0, 255));
}

template <int C>
void filter_row(const AxisFilter& across, const std::uint8_t* in, std::uint8_t* out) {
  for (std::int64_t x = 0; x < across.out(); ++x, out += C) {
    const std::uint8_t* pixel = in + std::ptrdiff_t{C} * across.first(x);
    std::int32_t sums[C];
    std::fill_n(sums, C, kHalf);
    for (std::int32_t tap = 0; tap < across.count(x); ++tap, pixel += C) {
      const std::int32_t w = weight(across.high(x)[tap], across.low(x)[tap]);
      for (int c = 0; c < C; ++c) sums[c] += w * pixel[c];
    }
    for (int c = 0; c < C; ++c) out[c] = to_level(sums[c]);
  }
}

}  // namespace

template <int C>
void filter_rows_with(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                      std::int64_t rows, std::uint8_t* out) {
  for (std::int64_t y = 0; y < rows; ++y, in += stride, out += C * across.out()) {
    filter_row<C>(across, in, out);
  }
}

template void filter_rows_with<1>(const AxisFilter&, const std::uint8_t*, std::int64_t,
                                  std::int64_t, std::uint8_t*);
template void filter_rows_with<2>(const AxisFilter&, const std::uint8_t*, std::int64_t,
                                  std::int64_t, std::uint8_t*);
template void filter_rows_with<4>(const AxisFilter&, const std::uint8_t*, std::int64_t,
                                  std::int64_t, std::uint8_t*);

std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out) {
  filter_rows_with<3>(across, in, stride, rows, out);
  return rows;
}

void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out) {
  constexpr std::int64_t kBlock = 256;
  std::int32_t sums[kBlock];
  for (std::int64_t begin = 0; begin < columns; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, columns - begin);
    std::fill_n(sums, n, kHalf);
    const std::uint8_t* row = in + down.first(y) * stride + begin;
    for (std::int32_t tap = 0; tap < down.count(y); ++tap, row += stride) {
      const std::int32_t w = weight(down.high(y)[tap], down.low(y)[tap]);
      for (std::int64_t i = 0; i < n; ++i) sums[i] += w * row[i];
    }
    for (std::int64_t i = 0; i < n; ++i) out[begin + i] = to_level(sums[i]);
  }
}

}  // namespace plain

}  // namespace slipstream
