#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace slipstream {

struct MakeDataOptions {
  std::size_t samples = 256;
  std::vector<std::int64_t> sizes = {256};  ///< height and width, pixels; drawn per image
  std::vector<int> qualities = {90};        ///< JPEG quality, 1 to 100; drawn per image
  std::int64_t classes = 10;                ///< 2 to 10
  double gray_share = 0;                    ///< share of images stored as gray ones
  double png_share = 0;                     ///< share of images stored as PNG, not JPEG
  std::uint64_t seed = 1;
  unsigned threads = 0;        ///< 0: one per core
  std::function<bool()> stop;  ///< asked before each image, from any thread; true ends it
};

/// Writes DIR/images/NNNNNN.jpg (or .png) and DIR/masks/NNNNNN.png: scenes that can be learned.
/// Class 0 is the background (a texture); every other class is a shape (disc, ring, square,
/// triangle, cross, stripes, ...) with its own hue and texture, under varying light, with noise. A
/// pure function of (options without threads, sample number): files are equal for any number of
/// threads. `progress(done)` is called from worker threads. Files that exist already are replaced.
/// Returns how many samples were written: all, or the first ones where `stop` ended it. Throws
/// Refused for options out of range, for a folder that cannot be made or written, and for one that
/// holds other things, such as the other kind of data; Error for a failed write (a full disk),
/// naming the file.
std::size_t make_segmentation_data(const std::filesystem::path& dir, const MakeDataOptions& options,
                                   const std::function<void(std::size_t done)>& progress = {});

/// The same as class folders, DIR/classK/NNNNNN.jpg (or .png) in class 0 to `classes` - 1, in turn:
/// images with one shape, that of class K, or none in class 0.
std::size_t make_classification_data(const std::filesystem::path& dir,
                                     const MakeDataOptions& options,
                                     const std::function<void(std::size_t done)>& progress = {});

}  // namespace slipstream
