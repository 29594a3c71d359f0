#pragma once

namespace slipstream {

/// Returns true if this CPU has AVX2 and FMA.
bool has_avx2_and_fma();
/// Returns true if this CPU has AVX-512 with VBMI and VNNI (Ice Lake, Zen 4 and later).
bool has_avx512();

#if defined(__x86_64__)
// flatten inlines everything that `body` calls: only inlined code is compiled for AVX2.
template <typename Body>
[[gnu::target("avx2,fma"), gnu::flatten, gnu::noinline]] void run_for_avx2(const Body& body) {
  body();
}
#endif

/// Runs `body` compiled for the best instruction set of this CPU. The results are bitwise equal:
/// the compiler contracts nothing, and an explicit fma is rounded once either way (it is a library
/// call on CPUs without the instruction).
template <typename Body>
void with_best_code(const Body& body) {
#if defined(__x86_64__)
  if (has_avx2_and_fma()) return run_for_avx2(body);
#endif
  body();
}

}  // namespace slipstream
