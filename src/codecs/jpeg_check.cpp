#include "codecs/jpeg_check.h"

#include "codecs/jpeg.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kBits = 64;

}  // namespace

JpegCheck::JpegCheck(std::size_t samples) : sound_((samples + kBits - 1) / kBits) {}

bool JpegCheck::is_sound(std::uint64_t sample, std::span<const std::byte> file) {
  std::atomic<std::uint64_t>& word = sound_[sample / kBits];
  const std::uint64_t bit = std::uint64_t{1} << sample % kBits;
  // Relaxed order is enough: no other data depends on the bit, and at worst two threads check one
  // file.
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return true;
  if (!jpeg::is_sound(file)) return false;
  word.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

}  // namespace slipstream
