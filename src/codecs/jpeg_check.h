#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slipstream {

/// Looks for damage in files that a device will decode: once for each sample, for that costs about
/// half of decoding. Any thread.
class JpegCheck {
 public:
  explicit JpegCheck(std::size_t samples);

  /// Throws what decoding the file throws. Does nothing for a sample whose file was once whole.
  void check(std::uint64_t sample, std::span<const std::byte> file);

 private:
  std::vector<std::atomic<std::uint64_t>> whole_;  ///< a bit a sample
};

}  // namespace slipstream
