#include "codecs/jpeg_check.h"

#include "codecs/jpeg.h"

namespace slipstream {
namespace {

constexpr std::size_t kBits = 64;

}  // namespace

JpegCheck::JpegCheck(std::size_t samples) : whole_((samples + kBits - 1) / kBits) {}

void JpegCheck::check(std::uint64_t sample, std::span<const std::byte> file) {
  std::atomic<std::uint64_t>& word = whole_[sample / kBits];
  const std::uint64_t bit = std::uint64_t{1} << sample % kBits;
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  jpeg::check(file);
  word.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace slipstream
