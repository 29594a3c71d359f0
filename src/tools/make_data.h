#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

namespace slipstream {

struct MakeDataOptions {
  std::size_t samples = 256;
  /// Height and width in pixels; one is chosen at random per image.
  std::vector<std::int64_t> sizes = {256};
  std::vector<int> qualities = {90};  ///< JPEG quality, 1 to 100; one is chosen at random per image
  std::int64_t classes = 10;          ///< 2 to 10
  double gray_share = 0;              ///< share of images stored as gray ones
  double png_share = 0;               ///< share of images stored as PNG, not JPEG
  std::uint64_t seed = 1;
  unsigned threads = 0;        ///< 0: one per core
  std::function<bool()> stop;  ///< called before each image, from any thread; true stops
};

/// Writes DIR/images/NNNNNN.jpg (or .png) and DIR/masks/NNNNNN.png: synthetic scenes that a model
/// can learn. Class 0 is the background (a texture); every other class is a shape (disc, ring,
/// square, triangle, cross, stripes, ...) with its own hue and texture, under varying light, with
/// noise. The files are a pure function of the options and the sample's index, for any number of
/// threads. `progress(done)` is called from worker threads. Existing files are replaced. Returns
/// how many samples were written: all, or the first ones if `stop` returned true. Throws Refused
/// for options out of range, for a folder that cannot be created or written, and for one that holds
/// other files, such as the other kind of data. Throws Error with the file for a failed write (a
/// full disk).
std::size_t make_segmentation_data(const std::filesystem::path& dir, const MakeDataOptions& options,
                                   const std::function<void(std::size_t done)>& progress = {});

/// Like make_segmentation_data(), but writes class folders: DIR/classK/NNNNNN.jpg (or .png), with
/// classes 0 to `classes` - 1 in rotation. An image has one shape, that of class K, or none for
/// class 0.
std::size_t make_classification_data(const std::filesystem::path& dir,
                                     const MakeDataOptions& options,
                                     const std::function<void(std::size_t done)>& progress = {});

}  // namespace slipstream
