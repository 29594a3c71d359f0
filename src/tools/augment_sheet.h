#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "slipstream/datasets/dataset.h"
#include "slipstream/transforms/op.h"
#include "tools/sheet.h"

namespace slipstream {

struct AugmentSheetOptions {
  std::size_t samples = 8;   ///< rows, at least 1; fewer where fewer samples are good
  std::size_t versions = 3;  ///< number of versions of each sample, at least 1
  std::uint64_t seed = 1;
  /// Epoch of the first version; each further version belongs to the next epoch.
  std::uint32_t epoch = 0;
  std::int64_t cell = 160;  ///< height and width of a tile with its border, pixels; 16 to 4096
  /// Color that transparent pixels are composited over, as in training.
  Rgb background = {0, 0, 0};
  OnBadSample on_bad_sample = OnBadSample::stop;
  std::function<bool()> stop = {};  ///< called before each sample; true stops
};

struct AugmentSheet {
  std::vector<std::uint64_t> samples;  ///< index of each row's sample, without skipped ones
  std::vector<SkippedSample> skipped;  ///< in the order of the epoch
  Sheet sheet;                         ///< empty after a stop
};

/// Shows what `chain` does to images, on a white sheet. The row of a sample has its first image
/// field as decoded, with the name of its file, and then its versions with their epochs.
///
/// Rows are the first samples of the epoch's order, as a DataLoader with this seed reads them.
/// Versions have the bits that the loader would produce for the sample in this epoch, the next, and
/// so on. With OnBadSample::skip a bad sample has no row and is not replaced.
///
/// Float images are converted back to levels: each Normalize and Divide is inverted, in reverse
/// order; then white (255 if ConvertColor or Divide took uint8, else 1) is mapped to 255, clamped
/// and rounded. With one or two channels the first is shown in gray, with more the first three as
/// RGB. The sheet is a pure function of data set, chain and options.
///
/// Throws Refused for what a DataLoader refuses, invalid options, a data set without images, images
/// that are neither uint8 nor float32 of height x width x channels, and a sheet of more than
/// kDefaultPixelLimit pixels. Throws Error for a bad sample (naming step and file), or if all
/// samples are bad.
AugmentSheet augment_sheet(std::shared_ptr<const Dataset> dataset,
                           const std::vector<NamedOp>& chain,
                           const AugmentSheetOptions& options = {});

}  // namespace slipstream
