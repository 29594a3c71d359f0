#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace slipstream {

/// Finds damaged files, for which a device's decoder could return other pixels than libjpeg-turbo.
/// Each sound file is checked only once, because the check takes a considerable part of the time of
/// decoding. Thread-safe.
class JpegCheck {
 public:
  explicit JpegCheck(std::size_t samples);

  /// Returns true if the file decodes without an error or a warning. Does not read the file of a
  /// sample that was found sound before.
  /// REQUIRES: a file of one scan
  bool is_sound(std::uint64_t sample, std::span<const std::byte> file);

 private:
  std::vector<std::atomic<std::uint64_t>> sound_;  ///< one bit per sample
};

}  // namespace slipstream
