#include "transforms/resize_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

// The arithmetic of resize_sse2.cpp with vectors of twice the width. Instruction sets are enabled
// per function, not per file: otherwise inline functions from headers would be compiled here with
// AVX2, and the linker could use them on machines without it.
namespace slipstream::avx2 {
namespace {

struct Sums {
  __m256i high;
  __m256i low;
};

[[gnu::target("avx2")]] inline void add(Sums& sums, __m256i pairs, __m256i high, __m256i low) {
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(pairs, high));
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(pairs, low));
}

[[gnu::target("avx2")]] inline __m256i joined(const Sums& sums) {
  return _mm256_add_epi32(_mm256_slli_epi32(sums.high, AxisFilter::kLowBits), sums.low);
}

[[gnu::target("avx2")]] inline __m256i levels(__m256i sums) {
  return _mm256_srai_epi32(sums, AxisFilter::kFractionBits);
}

constexpr std::int64_t kRows = 4;

[[gnu::target("avx2")]] inline __m128i load128(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// Combines two vectors, one in each half.
[[gnu::target("avx2")]] inline __m256i side_by_side(__m128i left, __m128i right) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(left), right, 1);
}

[[gnu::target("avx2")]] inline __m256i spread(const std::int16_t* left, const std::int16_t* right) {
  std::int32_t two[2];
  std::memcpy(two, left, sizeof(two[0]));
  std::memcpy(two + 1, right, sizeof(two[1]));
  return side_by_side(_mm_set1_epi32(two[0]), _mm_set1_epi32(two[1]));
}

/// Returns, for two RGB pixels on each side, the levels of each channel next to each other as
/// 16-bit words.
[[gnu::target("avx2")]] inline __m256i channels(const std::uint8_t* left,
                                                const std::uint8_t* right) {
  const __m256i order =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  return _mm256_shuffle_epi8(side_by_side(load128(left), load128(right)), order);
}

/// Stores the two halves `apart` bytes from each other.
[[gnu::target("avx2")]] inline void store_two(__m128i halves, std::uint8_t* out,
                                              std::int64_t apart) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), halves);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out + apart), _mm_unpackhi_epi64(halves, halves));
}

/// Computes pixels x and x + 1 of four rows from `taps` inputs each. Writes two bytes too many in
/// each row, which the next pair overwrites. Four rows share the loading of weights.
[[gnu::target("avx2"), gnu::always_inline]] inline void filter_pair(
    const AxisFilter& across, std::int64_t x, std::int32_t taps, const std::uint8_t* in,
    std::int64_t stride, std::uint8_t* out) {
  Sums sums[kRows];
  for (Sums& row : sums) {
    row = {_mm256_setzero_si256(), _mm256_set1_epi32(1 << (AxisFilter::kFractionBits - 1))};
  }
  const std::uint8_t* left = in + std::ptrdiff_t{3} * across.first(x);
  const std::uint8_t* right = in + std::ptrdiff_t{3} * across.first(x + 1);
  for (std::int32_t tap = 0; tap < taps; tap += 2, left += 6, right += 6) {
    const __m256i high = spread(across.high(x) + tap, across.high(x + 1) + tap);
    const __m256i low = spread(across.low(x) + tap, across.low(x + 1) + tap);
    for (int row = 0; row < kRows; ++row) {
      add(sums[row], channels(left + row * stride, right + row * stride), high, low);
    }
  }
  const __m256i bytes =
      _mm256_packus_epi16(_mm256_packs_epi32(levels(joined(sums[0])), levels(joined(sums[1]))),
                          _mm256_packs_epi32(levels(joined(sums[2])), levels(joined(sums[3]))));
  // First brings the two pixels of a row next to each other, then removes the gaps.
  const __m256i rows =
      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  const __m256i packed = _mm256_shuffle_epi8(
      rows, _mm256_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, 8, 9, 10, 12, 13, 14, -1, -1,  //
                             0, 1, 2, 4, 5, 6, -1, -1, 8, 9, 10, 12, 13, 14, -1, -1));
  const std::int64_t row_bytes = 3 * across.out();
  store_two(_mm256_castsi256_si128(packed), out, row_bytes);
  store_two(_mm256_extracti128_si256(packed, 1), out + 2 * row_bytes, row_bytes);
}

[[gnu::target("avx2")]] void filter_four_rows(const AxisFilter& filter, const std::uint8_t* in,
                                              std::int64_t stride, std::uint8_t* out) {
  // A copy, because the compiler must assume that the bytes that are written may alias `filter`.
  const AxisFilter across = filter;
  std::int64_t x = 0;
  for (; x + 2 < across.out(); x += 2) {
    // Both pixels take the same number of taps; the weights after an output's own are 0.
    const std::int32_t taps = (std::max(across.count(x), across.count(x + 1)) + 1) / 2 * 2;
    // The last pixels would read too far beyond the row; they are computed one by one below.
    if (across.first(x + 1) + taps > across.in() + 1) break;
    // The usual numbers are passed as constants, for which the compiler unrolls the loop
    // completely.
    if (taps == 2) {
      filter_pair(across, x, 2, in, stride, out + 3 * x);
    } else if (taps == 4) {
      filter_pair(across, x, 4, in, stride, out + 3 * x);
    } else {
      filter_pair(across, x, taps, in, stride, out + 3 * x);
    }
  }
  for (int row = 0; row < kRows; ++row, in += stride, out += 3 * across.out()) {
    for (std::int64_t i = x; i < across.out(); ++i) sse2::filter_pixel(across, i, in, out + 3 * i);
  }
}

constexpr std::int64_t kBlock = 32;

[[gnu::target("avx2")]] inline __m256i load256(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

[[gnu::target("avx2")]] inline __m256i spread_two(const std::int16_t* two_weights) {
  std::int32_t word;
  std::memcpy(&word, two_weights, sizeof(word));
  return _mm256_set1_epi32(word);
}

[[gnu::target("avx2")]] void filter_block(const AxisFilter& down, std::int64_t y,
                                          const std::uint8_t* in, std::int64_t stride,
                                          std::uint8_t* out) {
  const __m256i zero = _mm256_setzero_si256();
  const std::int32_t count = down.count(y);
  const std::uint8_t* row = in + down.first(y) * stride;
  Sums sums[4];
  for (Sums& part : sums) {
    part = {zero, _mm256_set1_epi32(1 << (AxisFilter::kFractionBits - 1))};
  }
  for (std::int32_t tap = 0; tap < count; tap += 2, row += 2 * stride) {
    const __m256i upper = load256(row);
    const __m256i lower = tap + 1 < count ? load256(row + stride) : zero;
    const __m256i high = spread_two(down.high(y) + tap);
    const __m256i low = spread_two(down.low(y) + tap);
    const __m256i left = _mm256_unpacklo_epi8(upper, lower);
    const __m256i right = _mm256_unpackhi_epi8(upper, lower);
    add(sums[0], _mm256_unpacklo_epi8(left, zero), high, low);
    add(sums[1], _mm256_unpackhi_epi8(left, zero), high, low);
    add(sums[2], _mm256_unpacklo_epi8(right, zero), high, low);
    add(sums[3], _mm256_unpackhi_epi8(right, zero), high, low);
  }
  // Unpacking and packing both work within halves of 128 bits, so the pixels are in order again.
  const __m256i bytes =
      _mm256_packus_epi16(_mm256_packs_epi32(levels(joined(sums[0])), levels(joined(sums[1]))),
                          _mm256_packs_epi32(levels(joined(sums[2])), levels(joined(sums[3]))));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
}

}  // namespace

[[gnu::target("avx2")]] std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in,
                                                 std::int64_t stride, std::int64_t rows,
                                                 std::uint8_t* out) {
  std::int64_t y = 0;
  for (; y + kRows <= rows; y += kRows, in += kRows * stride, out += kRows * 3 * across.out()) {
    filter_four_rows(across, in, stride, out);
  }
  return y + sse2::filter_rows(across, in, stride, rows - y, out);
}

[[gnu::target("avx2")]] void filter_columns(const AxisFilter& down, std::int64_t y,
                                            const std::uint8_t* in, std::int64_t stride,
                                            std::int64_t columns, std::uint8_t* out) {
  std::int64_t at = 0;
  for (; at + kBlock <= columns; at += kBlock) filter_block(down, y, in + at, stride, out + at);
  sse2::filter_columns(down, y, in + at, stride, columns - at, out + at);
}

}  // namespace slipstream::avx2
#endif
