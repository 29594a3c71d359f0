#pragma once

namespace slipstream {

/// Whether this CPU has AVX2 and FMA.
bool has_avx2_and_fma();
/// Whether it has AVX-512 with VBMI and VNNI (Ice Lake, Zen 4 and later).
bool has_avx512();

#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2,fma"), gnu::flatten, gnu::noinline]] void run_for_avx2(const Body& body) {
  body();
}
#endif

/// Runs `body` compiled for the best instructions that this CPU has. The bits are the same: nothing
/// is contracted, and an explicit fma is one either way (a call where there is no instruction).
template <typename Body>
void with_best_code(const Body& body) {
#if defined(__x86_64__)
  if (has_avx2_and_fma()) return run_for_avx2(body);
#endif
  body();
}

}  // namespace slipstream
