#include "transforms/resize_kernels.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#include <cstring>

// pmaddwd multiplies two adjacent taps by their weights and adds the products, with 16-bit factors.
// A weight has more bits, so its high and low halves are summed separately and combined at the end.
namespace slipstream::sse2 {
namespace {

// memcpy(), because the address is not aligned to 4.
__m128i load32(const void* from) {
  std::int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return _mm_cvtsi32_si128(word);
}

__m128i load128(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

__m128i spread(const std::int16_t* two_weights) {
  return _mm_shuffle_epi32(load32(two_weights), 0);
}

struct Sums {
  __m128i high = _mm_setzero_si128();
  __m128i low = _mm_set1_epi32(1 << (AxisFilter::kFractionBits - 1));

  void add(__m128i pairs, __m128i high_weights, __m128i low_weights) {
    high = _mm_add_epi32(high, _mm_madd_epi16(pairs, high_weights));
    low = _mm_add_epi32(low, _mm_madd_epi16(pairs, low_weights));
  }
  __m128i levels() const {
    const __m128i sum = _mm_add_epi32(_mm_slli_epi32(high, AxisFilter::kLowBits), low);
    return _mm_srai_epi32(sum, AxisFilter::kFractionBits);
  }
};

constexpr std::int64_t kBlock = 16;

void filter_block(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                  std::int64_t stride, std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  const std::int32_t count = down.count(y);
  const std::uint8_t* row = in + down.first(y) * stride;
  Sums sums[4];
  for (std::int32_t tap = 0; tap < count; tap += 2, row += 2 * stride) {
    const __m128i upper = load128(row);
    // With an odd number of taps, the last row may be the last one of the image.
    const __m128i lower = tap + 1 < count ? load128(row + stride) : zero;
    const __m128i high = spread(down.high(y) + tap);
    const __m128i low = spread(down.low(y) + tap);
    const __m128i left = _mm_unpacklo_epi8(upper, lower);
    const __m128i right = _mm_unpackhi_epi8(upper, lower);
    sums[0].add(_mm_unpacklo_epi8(left, zero), high, low);
    sums[1].add(_mm_unpackhi_epi8(left, zero), high, low);
    sums[2].add(_mm_unpacklo_epi8(right, zero), high, low);
    sums[3].add(_mm_unpackhi_epi8(right, zero), high, low);
  }
  const __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(sums[0].levels(), sums[1].levels()),
                                         _mm_packs_epi32(sums[2].levels(), sums[3].levels()));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
}

}  // namespace

void filter_pixel(const AxisFilter& across, std::int64_t x, const std::uint8_t* in,
                  std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  const std::uint8_t* pixel = in + std::ptrdiff_t{3} * across.first(x);
  const std::int16_t* high = across.high(x);
  const std::int16_t* low = across.low(x);
  Sums sums;
  for (std::int32_t tap = 0; tap < across.count(x); tap += 2, pixel += 6) {
    const __m128i pairs = _mm_unpacklo_epi8(load32(pixel), load32(pixel + 3));
    sums.add(_mm_unpacklo_epi8(pairs, zero), spread(high + tap), spread(low + tap));
  }
  const __m128i words = _mm_packs_epi32(sums.levels(), zero);
  const std::int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
  std::memcpy(out, &bytes, 3);
}

std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out) {
  for (std::int64_t y = 0; y < rows; ++y, in += stride) {
    for (std::int64_t x = 0; x < across.out(); ++x, out += 3) filter_pixel(across, x, in, out);
  }
  return rows;
}

void filter_columns(const AxisFilter& down, std::int64_t y, const std::uint8_t* in,
                    std::int64_t stride, std::int64_t columns, std::uint8_t* out) {
  std::int64_t at = 0;
  for (; at + kBlock <= columns; at += kBlock) filter_block(down, y, in + at, stride, out + at);
  plain::filter_columns(down, y, in + at, stride, columns - at, out + at);
}

}  // namespace slipstream::sse2
#endif
