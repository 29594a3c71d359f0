#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/tiff_file.h"

namespace slipstream::tiff {

/// Converts the samples of a TIFF image to RGB.
class PixelConverter {
 public:
  using Palette = std::array<Rgb, 256>;

  PixelConverter(const Layout& layout, const Palette& palette, const Rgb& background)
      : layout_(layout), palette_(palette), background_(background) {}

  /// Stores the samples of `pixels` pixels, which are packed in `row`, for to_rgb(). With
  /// Layout::is_planar, `row` holds only sample `plane` of each pixel.
  void add(const std::byte* row, std::size_t pixels, std::uint16_t plane);

  /// Converts the pixels whose samples were added into 3 * pixels bytes.
  void to_rgb(std::size_t pixels, std::uint8_t* rgb) const;

 private:
  template <std::uint32_t kMost>
  void convert(const std::uint16_t* samples, std::uint8_t* rgb) const;
  std::uint32_t color(const std::uint16_t* samples, std::size_t c, std::uint32_t most) const;

  const Layout& layout_;
  const Palette& palette_;
  Rgb background_;
  std::vector<std::uint16_t> samples_;  ///< those of each pixel next to each other
};

}  // namespace slipstream::tiff
