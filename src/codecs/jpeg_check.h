#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slipstream {

/// Finds files with damage, on which a device's decoder could differ from libjpeg-turbo. Each sound
/// file is read once, because that costs a part of decoding it. Any thread.
class JpegCheck {
 public:
  explicit JpegCheck(std::size_t samples);

  /// Returns whether the file decodes without an error or a warning. Does not read the file of a
  /// sample whose file was sound before. REQUIRES: a file of one scan
  bool is_sound(std::uint64_t sample, std::span<const std::byte> file);

 private:
  std::vector<std::atomic<std::uint64_t>> sound_;  ///< a bit a sample
};

}  // namespace slipstream
