#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loader/sample_steps.h"
#include "tools/levels.h"

namespace slipstream {

/// What a model makes of one image.
struct Prediction {
  /// The most probable classes with their probabilities, the first one the prediction; empty: the
  /// prediction is a mask.
  std::vector<std::pair<std::int64_t, float>> classes = {};
  HostArray mask = {};  ///< class numbers, uint8, height x width
  bool is_nan = false;  ///< whether the model's output has a NaN
};

struct PreviewSheetOptions {
  std::int64_t cell = 160;  ///< height and width of a tile with its border, pixels
  DecodeOptions decode = {};
  std::uint64_t seed = 1;
};

/// The color in which a sheet shows the class `number`: that of the palette of PASCAL VOC, whose
/// 256 colors differ from each other. 0 is black.
Rgb color_of_class(std::uint8_t number);

/// Images as a model sees them beside what it makes of them, as a PNG of tiles on white.
///
/// For masks a row is a sample: the image, called as its file is, the predicted mask and the true
/// one in colors of classes. For classes a tile is a sample, with the predicted class and its
/// probability under it and then the label, both in red where they differ. The label is the first
/// field of integers that is a mask, or a label; where there is none, nothing of it is shown.
class PreviewSheet {
 public:
  /// `chain`: the transforms ahead of the model. Throws Refused for what a DataLoader refuses, and
  /// where images cannot be shown, as augment_sheet() does.
  PreviewSheet(std::shared_ptr<const Dataset> samples, const std::vector<NamedOp>& chain,
               const PreviewSheetOptions& options = {});

  /// Reads the samples again. Throws Error for one that cannot be read. REQUIRES: one prediction
  /// for each sample, at least one, all of one kind
  std::vector<std::byte> png(const std::vector<Prediction>& predictions);

 private:
  const std::shared_ptr<const Dataset> samples_;
  const std::int64_t cell_;
  const SampleSteps steps_;
  const std::size_t image_;
  const ShownLevels levels_;
};

}  // namespace slipstream
