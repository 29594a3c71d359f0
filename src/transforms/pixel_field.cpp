#include "transforms/pixel_field.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/pixel.h"

namespace slipstream {

void require_pixels(std::string_view op, const FieldSpec& in, std::int64_t least,
                    std::int64_t most) {
  const bool is_number = in.dtype == DType::uint8 || in.dtype == DType::float32;
  if (is_number && in.shape.rank == 3 && in.shape[2] >= least && in.shape[2] <= most) return;
  std::string channels = std::to_string(least);
  if (most > least) channels += (most == least + 1 ? " or " : " to ") + std::to_string(most);
  throw Refused(std::string(op) + ": image '" + in.name + "' is " +
                std::string(to_string(in.dtype)) + ", " + to_string(in.shape) +
                "; it must be uint8 or float32, height x width x " + channels);
}

void require_range(std::string_view op, std::string_view what, double low, double high,
                   double least, double most) {
  if (low >= least && low <= high && high <= most) return;
  throw Refused(std::string(op) + ": " + std::string(what) + " is " + number_text(low) + " to " +
                number_text(high) + "; it must be " + number_text(least) + " to " +
                number_text(most) + ", the first at most the second");
}

FieldSpec as_f32(const FieldSpec& in) {
  FieldSpec out = in;
  out.dtype = DType::float32;
  return out;
}

std::size_t count_pixels(const ConstArray& array) {
  return static_cast<std::size_t>(array.shape[0] * array.shape[1]);
}

namespace {

#if defined(__x86_64__)
/// Converts four values to integers, rounding to even (the processor's default mode). Values above
/// 255 are clamped here; packing clamps those below 0.
__m128i whole_numbers(const float* values) {
  return _mm_cvtps_epi32(_mm_min_ps(_mm_set1_ps(255), _mm_loadu_ps(values)));
}

/// Stores the first values, 16 at a time, and returns how many it stored.
std::int64_t store_sixteens(const float* values, std::int64_t count, std::uint8_t* levels) {
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i first = _mm_packs_epi32(whole_numbers(values + i), whole_numbers(values + i + 4));
    const __m128i last =
        _mm_packs_epi32(whole_numbers(values + i + 8), whole_numbers(values + i + 12));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(levels + i), _mm_packus_epi16(first, last));
  }
  return i;
}
#else
std::int64_t store_sixteens(const float*, std::int64_t, std::uint8_t*) { return 0; }
#endif

}  // namespace

void store_levels(const float* values, std::int64_t count, std::uint8_t* levels) {
  for (std::int64_t i = store_sixteens(values, count, levels); i < count; ++i) {
    levels[i] = static_cast<std::uint8_t>(to_level(values[i]));
  }
}

}  // namespace slipstream
