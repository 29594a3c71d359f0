#include "transforms/resize_kernels.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC 12's own header (its bug 105593)
#endif
#include <immintrin.h>

#include <algorithm>
#include <array>

// vpdpbusd multiplies four unsigned bytes by four signed bytes and adds the products to a 32-bit
// sum, and vpermb gathers arbitrary bytes of a vector. So four taps are one step for each of the
// three bytes of the weights. Instruction sets are enabled per function, as in resize_avx2.cpp.
#define SLIPSTREAM_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")

namespace slipstream::avx512 {
namespace {

constexpr std::int64_t kVector = 64;  // bytes
constexpr std::int64_t kValues = 16;  // sums in one vector
constexpr std::int64_t kPart = 512;   // values of a row that are planned together
constexpr std::int32_t kTaps = 4;     // taps of one step
constexpr int kParts = 3;             // bytes of a weight

/// The weights of four taps, one byte each. Part 0 is in units of 2^16, part 1 in units of 2^8,
/// part 2 in units of 1. All bytes are signed.
using Weights = std::array<std::uint32_t, kParts>;

Weights load_weight_vectors(const AxisFilter& filter, std::int64_t i, std::int32_t tap) {
  Weights weights{};
  const std::int32_t taps = std::min(filter.count(i) - tap, kTaps);
  for (std::int32_t k = 0; k < taps; ++k) {
    const std::int32_t weight =
        filter.high(i)[tap + k] * (1 << AxisFilter::kLowBits) + filter.low(i)[tap + k];
    // Each part is rounded to nearest, because the lower part is signed and may be negative.
    const std::int32_t above = (weight + 0x80) >> 8;
    const std::int32_t top = (above + 0x80) >> 8;
    const std::int32_t parts[kParts] = {top, above, weight};
    for (std::size_t part = 0; part < kParts; ++part) {
      weights[part] |= (static_cast<std::uint32_t>(parts[part]) & 0xFFU) << (8 * k);
    }
  }
  return weights;
}

[[SLIPSTREAM_AVX512]] inline __m512i load(const void* from) { return _mm512_loadu_si512(from); }

/// Adds the products of four bytes and their weights to each sum. Shifting between the parts needs
/// one sum instead of three.
[[SLIPSTREAM_AVX512]] inline __m512i added(__m512i sums, __m512i bytes,
                                           const __m512i (&weights)[kParts]) {
  __m512i products = _mm512_setzero_si512();
  for (int part = 0; part < kParts; ++part) {
    if (part > 0) products = _mm512_slli_epi32(products, 8);
    products = _mm512_dpbusd_epi32(products, bytes, weights[part]);
  }
  return _mm512_add_epi32(sums, products);
}

/// Initial sums: half a unit, which rounds the result.
[[SLIPSTREAM_AVX512]] inline __m512i no_sums() {
  return _mm512_set1_epi32(1 << (AxisFilter::kFractionBits - 1));
}

[[SLIPSTREAM_AVX512]] inline __m512i levels(__m512i sums) {
  return _mm512_srai_epi32(sums, AxisFilter::kFractionBits);
}

/// Rows of RGB pixels that are resized horizontally to contiguous rows of values.
struct Rows {
  const std::uint8_t* first;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t bytes;   ///< per row
  std::int64_t values;  ///< values per output row
};

/// Offset at which a vector of a row is loaded for pixel `first`. It is moved back so that the
/// vector ends inside the row.
std::int64_t read_begin(const Rows& rows, std::int64_t first) {
  return std::min(3 * first, rows.bytes - kVector);
}

constexpr std::uint32_t kEach = 0x01010101U;  // 1 in each byte of a lane

/// Plan for 16 adjacent output bytes: the positions and weights of kSteps times four taps of each.
template <int kSteps>
struct Filtered {
  using Axis = AxisFilter;
  using Value = std::uint8_t;

  struct alignas(kVector) Step {
    std::array<std::uint32_t, kValues> places;
    std::array<std::uint32_t, kValues> weights[kParts];
    std::int64_t base;
  };
  Step steps[kSteps];

  /// Computes the plan for values `at` to `at` + 15 of a row. Returns false if the bytes of a step
  /// do not fit into one vector.
  bool set(const Rows& rows, const AxisFilter& across, std::int64_t at) {
    for (std::int32_t i = 0; i < kSteps; ++i) {
      if (!set_step(rows, across, at, i * kTaps, steps[i])) return false;
    }
    return true;
  }

  static bool set_step(const Rows& rows, const AxisFilter& across, std::int64_t at,
                       std::int32_t tap, Step& step) {
    step.base = read_begin(rows, std::int64_t{across.first(at / 3)} + tap);
    for (std::int64_t x = at / 3; 3 * x < at + kValues; ++x) {
      const std::int64_t place = 3 * (std::int64_t{across.first(x)} + tap) - step.base;
      const std::int64_t taps = std::clamp(across.count(x) - tap, 0, kTaps);
      if (taps > 0 && place + 3 * taps > kVector) return false;
      const Weights weights = load_weight_vectors(across, x, tap);
      // 0, 3, 6 and 9: the same channel of four adjacent pixels.
      // Taps with weight 0 may select any byte: vpermb uses only six bits of an index.
      const std::uint32_t places = static_cast<std::uint32_t>(place) * kEach + 0x09060300U;
      for (std::int64_t i = std::max(3 * x, at); i < std::min(3 * x + 3, at + kValues); ++i) {
        const auto lane = static_cast<std::size_t>(i - at);
        step.places[lane] = places + static_cast<std::uint32_t>(i - 3 * x) * kEach;
        for (std::size_t part = 0; part < kParts; ++part) step.weights[part][lane] = weights[part];
      }
    }
    return true;
  }

  template <int kRows>
  [[SLIPSTREAM_AVX512, gnu::always_inline]] void make(const std::uint8_t* in, std::int64_t stride,
                                                      std::uint8_t* out,
                                                      std::int64_t out_stride) const {
    __m512i sums[kRows];
    for (__m512i& sum : sums) sum = no_sums();
    for (const Step& step : steps) {
      const __m512i places = load(step.places.data());
      const __m512i weights[kParts] = {load(step.weights[0].data()), load(step.weights[1].data()),
                                       load(step.weights[2].data())};
      for (int row = 0; row < kRows; ++row) {
        const __m512i bytes = load(in + row * stride + step.base);
        sums[row] = added(sums[row], _mm512_permutexvar_epi8(places, bytes), weights);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      // The conversion takes its input as unsigned, so that it clamps only above.
      const __m512i positive = _mm512_max_epi32(levels(sums[row]), _mm512_setzero_si512());
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + row * out_stride),
                       _mm512_cvtusepi32_epi8(positive));
    }
  }
};

/// Plan for 16 adjacent values: the positions of the two bytes that each is interpolated between,
/// and the weights.
struct alignas(kVector) Between {
  using Axis = Neighbors;
  using Value = float;

  std::array<std::uint32_t, kValues> places[2];
  std::array<float, kValues> weights;
  std::int64_t base;

  bool set(const Rows& rows, const Neighbors& first_pixel, std::int64_t at) {
    const Neighbors* across = &first_pixel;
    base = read_begin(rows, across[at / 3].first);
    for (std::int64_t i = at; i < at + kValues; ++i) {
      const Neighbors& of = across[i / 3];
      const std::int64_t second = 3 * std::int64_t{of.second} + i % 3 - base;
      if (second >= kVector) return false;
      const auto lane = static_cast<std::size_t>(i - at);
      places[0][lane] = static_cast<std::uint32_t>(3 * std::int64_t{of.first} + i % 3 - base);
      places[1][lane] = static_cast<std::uint32_t>(second);
      weights[lane] = of.weight;
    }
    return true;
  }

  template <int kRows>
  [[SLIPSTREAM_AVX512, gnu::always_inline]] void make(const std::uint8_t* in, std::int64_t stride,
                                                      float* out, std::int64_t out_stride) const {
    constexpr __mmask64 kLowest = 0x1111111111111111U;  // lowest byte of each lane
    const __m512i place[2] = {load(places[0].data()), load(places[1].data())};
    const __m512 weight = _mm512_loadu_ps(weights.data());
    for (int row = 0; row < kRows; ++row) {
      const __m512i bytes = load(in + row * stride + base);
      const __m512 first =
          _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(kLowest, place[0], bytes));
      const __m512 second =
          _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(kLowest, place[1], bytes));
      _mm512_storeu_ps(out + row * out_stride,
                       _mm512_fmadd_ps(weight, _mm512_sub_ps(second, first), first));
    }
  }
};

/// Computes values `begin` to `end` - 1 of all rows, 16 at a time; the last 16 may overlap the ones
/// before. Planning once for all rows makes up for the cost of the plan. Returns false if the
/// inputs of 16 values are too far apart for one vector.
template <typename Plan>
[[SLIPSTREAM_AVX512]] bool make_part(const Rows& rows, const typename Plan::Axis& across,
                                     std::int64_t begin, std::int64_t end,
                                     typename Plan::Value* out) {
  Plan plans[kPart / kValues];
  const std::int64_t last = rows.values - kValues;
  std::int64_t count = 0;
  for (std::int64_t at = begin; at < end; at += kValues) {
    if (!plans[count++].set(rows, across, std::min(at, last))) return false;
  }
  constexpr int kRows = 4;
  std::int64_t y = 0;
  for (; y + kRows <= rows.count; y += kRows) {
    for (std::int64_t i = 0; i < count; ++i) {
      plans[i].template make<kRows>(rows.first + y * rows.stride, rows.stride,
                                    out + y * rows.values + std::min(begin + i * kValues, last),
                                    rows.values);
    }
  }
  for (; y < rows.count; ++y) {
    for (std::int64_t i = 0; i < count; ++i) {
      plans[i].template make<1>(rows.first + y * rows.stride, rows.stride,
                                out + y * rows.values + std::min(begin + i * kValues, last),
                                rows.values);
    }
  }
  return true;
}

/// Returns the number of rows done: all or none.
template <typename Plan>
std::int64_t make_rows(const Rows& rows, const typename Plan::Axis& across,
                       typename Plan::Value* out) {
  if (rows.values < kValues || rows.bytes < kVector) return 0;
  for (std::int64_t begin = 0; begin < rows.values; begin += kPart) {
    const std::int64_t end = std::min(begin + kPart, rows.values);
    if (!make_part<Plan>(rows, across, begin, end, out)) return 0;
  }
  return rows.count;
}

constexpr std::int32_t kMostSteps = 8;

[[SLIPSTREAM_AVX512, gnu::always_inline]] inline void filter_block(const Weights* all_weights,
                                                                   std::int32_t count,
                                                                   const std::uint8_t* in,
                                                                   std::int64_t stride,
                                                                   std::uint8_t* out) {
  __m512i sums[] = {no_sums(), no_sums(), no_sums(), no_sums()};
  for (std::int32_t tap = 0; tap < count; tap += kTaps, ++all_weights) {
    __m512i rows[kTaps];
    for (std::int32_t k = 0; k < kTaps; ++k) {
      // Rows after the last have weight 0.
      rows[k] = load(in + std::min(tap + k, count - 1) * stride);
    }
    const __m512i upper[2] = {_mm512_unpacklo_epi8(rows[0], rows[1]),
                              _mm512_unpackhi_epi8(rows[0], rows[1])};
    const __m512i lower[2] = {_mm512_unpacklo_epi8(rows[2], rows[3]),
                              _mm512_unpackhi_epi8(rows[2], rows[3])};
    __m512i weights[kParts];
    for (std::size_t part = 0; part < kParts; ++part) {
      weights[part] = _mm512_set1_epi32(static_cast<std::int32_t>((*all_weights)[part]));
    }
    for (std::size_t k = 0; k < 2; ++k) {
      sums[2 * k] = added(sums[2 * k], _mm512_unpacklo_epi16(upper[k], lower[k]), weights);
      sums[2 * k + 1] = added(sums[2 * k + 1], _mm512_unpackhi_epi16(upper[k], lower[k]), weights);
    }
  }
  const __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(levels(sums[0]), levels(sums[1])),
                                            _mm512_packs_epi32(levels(sums[2]), levels(sums[3])));
  _mm512_storeu_si512(out, bytes);
}

}  // namespace

std::int64_t filter_rows(const AxisFilter& across, const std::uint8_t* in, std::int64_t stride,
                         std::int64_t rows, std::uint8_t* out) {
  std::int32_t most = 0;
  for (std::int64_t x = 0; x < across.out(); ++x) most = std::max(most, across.count(x));
  const Rows all = {in, stride, rows, 3 * across.in(), 3 * across.out()};
  // Filters with more than three steps are left to the next slower implementation.
  if (most <= kTaps) return make_rows<Filtered<1>>(all, across, out);
  if (most <= 2 * kTaps) return make_rows<Filtered<2>>(all, across, out);
  return most <= 3 * kTaps ? make_rows<Filtered<3>>(all, across, out) : 0;
}

std::int64_t between_rows(std::span<const Neighbors> across, std::int64_t pixels,
                          const std::uint8_t* in, std::int64_t stride, std::int64_t rows,
                          float* out) {
  const Rows all = {in, stride, rows, 3 * pixels, 3 * static_cast<std::int64_t>(across.size())};
  return make_rows<Between>(all, across.front(), out);
}

[[SLIPSTREAM_AVX512]] void filter_columns(const AxisFilter& down, std::int64_t y,
                                          const std::uint8_t* in, std::int64_t stride,
                                          std::int64_t columns, std::uint8_t* out) {
  const std::int32_t count = down.count(y);
  if (columns < kVector || count > kMostSteps * kTaps) {
    return avx2::filter_columns(down, y, in, stride, columns, out);
  }
  Weights weights[kMostSteps];
  for (std::int32_t i = 0; i * kTaps < count; ++i)
    weights[i] = load_weight_vectors(down, y, i * kTaps);
  const std::uint8_t* row = in + down.first(y) * stride;
  for (std::int64_t begin = 0; begin < columns; begin += kVector) {
    const std::int64_t at = std::min(begin, columns - kVector);
    // Passing a number that is at most kTaps lets the compiler see that the loop over taps has one
    // iteration.
    if (count <= kTaps) {
      filter_block(weights, std::min(count, kTaps), row + at, stride, out + at);
    } else {
      filter_block(weights, count, row + at, stride, out + at);
    }
  }
}

}  // namespace slipstream::avx512
#endif
