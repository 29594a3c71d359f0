#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace slipstream {

/// Computes a 64-bit digest of memory: the sum over its 8-byte little-endian words w[i] (the last
/// one padded with zeros) of mix(w[i] + (i + 1) * step), modulo 2^64, plus mix(~bytes), where mix
/// and step are the finalizer and the increment of SplitMix64 (Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", 2014). A sum can be computed in any order and in parallel. It
/// detects accidental changes, not forgeries.
std::uint64_t fingerprint(const void* data, std::size_t bytes);

/// SplitMix64's increment: 2^64 divided by the golden ratio.
inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15ULL;

/// SplitMix64's finalizer: a bijection of 64-bit words.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// Combines the digest of a sequence so far with the next item. The order of items matters.
constexpr std::uint64_t chain64(std::uint64_t digest, std::uint64_t next) {
  return mix64(digest * kSplitMixStep + next);
}

/// Formats a digest as 16 hexadecimal digits.
std::string to_hex(std::uint64_t digest);

}  // namespace slipstream
