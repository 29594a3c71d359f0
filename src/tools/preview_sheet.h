#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loader/sample_steps.h"
#include "tools/sheet.h"
#include "tools/shown_image.h"

namespace slipstream {

/// A model's output for one image.
struct Prediction {
  /// The most probable classes with their probabilities; the first one is the prediction. Empty if
  /// the prediction is a mask.
  std::vector<std::pair<std::int64_t, float>> classes = {};
  HostArray mask = {};  ///< class indices, uint8, height x width
  bool is_nan = false;  ///< true if the model's output has a NaN
};

struct PreviewSheetOptions {
  std::int64_t cell = 160;  ///< height and width of a tile with its border, pixels
  DecodeOptions decode = {};
  std::uint64_t seed = 1;
};

/// A white sheet of images as a model gets them, with its predictions.
///
/// For masks, a row is a sample: the image, with the name of its file, the predicted mask and the
/// true one in class colors. For classes, a tile is a sample, with the predicted class, its
/// probability and the label as captions; it is marked if they differ. The label is the first
/// integer field that is a mask or a label; if there is none, only predictions are shown.
class PreviewSheet {
 public:
  /// `chain` holds the transforms before the model. Throws Refused for what a DataLoader refuses,
  /// and if images cannot be shown, as augment_sheet() does.
  PreviewSheet(std::shared_ptr<const Dataset> samples, const std::vector<NamedOp>& chain,
               const PreviewSheetOptions& options = {});

  /// Reads the samples again and builds the sheet. Throws Error for a sample that cannot be read.
  /// REQUIRES: one prediction for each sample, at least one, all of one kind
  Sheet sheet(const std::vector<Prediction>& predictions);

 private:
  const std::shared_ptr<const Dataset> samples_;
  const std::int64_t cell_;
  const SampleSteps steps_;
  const std::size_t image_;
  const ShownLevels levels_;
};

}  // namespace slipstream
