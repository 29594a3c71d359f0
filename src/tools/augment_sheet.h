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
  std::size_t versions = 3;  ///< of each sample, at least 1
  std::uint64_t seed = 1;
  std::uint32_t epoch = 0;     ///< of the first version; each other is that of the next epoch
  std::int64_t cell = 160;     ///< height and width of a tile with its border, pixels; 16 to 4096
  Rgb background = {0, 0, 0};  ///< what is seen through transparent pixels, as in training
  OnBadSample on_bad_sample = OnBadSample::stop;
  std::function<bool()> stop = {};  ///< asked before each sample
};

struct AugmentSheet {
  std::vector<std::uint64_t> samples;  ///< by row, without those that were skipped
  std::vector<SkippedSample> skipped;  ///< in the order of the epoch
  Sheet sheet;                         ///< without tiles after a stop
};

/// Shows what `chain` does to images: a row for each sample has its first image field as decoded,
/// with the name of its file, and then its versions, with their epochs, on white.
///
/// Rows are the first samples of the epoch's order, as a DataLoader of this seed takes them, and
/// versions have its bits: those of the sample in this epoch, the next, and so on. With
/// OnBadSample::skip a bad sample has no row; none stands in for it.
///
/// Float images are brought back to levels: each Normalize and Divide is undone, last first; then
/// white (255 where ConvertColor or Divide took uint8, else 1) becomes 255, clamped and rounded. Of
/// one or two channels the first is shown in gray, of more the first three as RGB. The sheet is a
/// pure function of data set, chain and options.
///
/// Throws Refused for what a DataLoader refuses, options that make no sense, a data set without
/// images, images that are neither uint8 nor float32 of height x width x channels, and a sheet of
/// more than kDefaultPixelLimit pixels; Error for a bad sample (naming step and file), or when all
/// are.
AugmentSheet augment_sheet(std::shared_ptr<const Dataset> dataset,
                           const std::vector<NamedOp>& chain,
                           const AugmentSheetOptions& options = {});

}  // namespace slipstream
