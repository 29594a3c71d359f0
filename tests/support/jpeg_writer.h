#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream {

/// Kinds of JPEG that encode_jpeg() does not write.
struct JpegKind {
  enum class Colors { gray, ycc, rgb, cmyk, ycck };

  Colors colors = Colors::ycc;
  int across = 1;  ///< sampling factors of the first component; all others have 1
  int down = 1;
  bool is_progressive = false;
  bool is_arithmetic = false;
  bool has_scan_each = false;  ///< one scan for each component
  bool has_adobe_marker = true;
  int quality = 90;
  int restart_rows = 0;  ///< 0: no restart markers
};

/// `levels` has height x width x 1 (gray), 3 or 4 values (255 means no ink). Throws
/// std::runtime_error.
std::vector<std::byte> write_jpeg(const JpegKind& kind, std::int64_t height, std::int64_t width,
                                  const std::vector<std::uint8_t>& levels);

/// Noise on a slope with `channels` values per pixel, which uses every coefficient of every block.
std::vector<std::uint8_t> noisy_levels(std::int64_t height, std::int64_t width, int channels);

}  // namespace slipstream
