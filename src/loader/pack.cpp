#include "loader/pack.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slipstream {
namespace {

using Pack = void (*)(const float*, std::size_t, std::uint16_t*);

void pack_f16_anywhere(const float* values, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = to_f16(values[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void pack_f16_f16c(const float* values, std::size_t count,
                                                       std::uint16_t* to) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  // The last values, fewer than 8, are converted one by one. Both ways round to nearest, so the
  // bits are the same.
  pack_f16_anywhere(values + i, count - i, to + i);
}

Pack best_pack_f16() {
  // AVX2 is tested instead of F16C, because clang 14 cannot test for F16C, and every processor with
  // AVX2 has it.
  return __builtin_cpu_supports("avx2") ? pack_f16_f16c : pack_f16_anywhere;
}
#else
Pack best_pack_f16() { return pack_f16_anywhere; }
#endif

}  // namespace

void pack_bf16(const float* values, std::size_t count, std::byte* to) {
  auto* halves = reinterpret_cast<std::uint16_t*>(to);
  for (std::size_t i = 0; i < count; ++i) halves[i] = to_bf16(values[i]);
}

void pack_f16(const float* values, std::size_t count, std::byte* to) {
  static const Pack kPack = best_pack_f16();
  kPack(values, count, reinterpret_cast<std::uint16_t*>(to));
}

}  // namespace slipstream
