#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loader/sample_steps.h"
#include "tools/sheet.h"
#include "tools/shown_image.h"

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

/// Images as a model sees them with its predictions, on white.
///
/// For masks a row is a sample: the image, with the name of its file, the predicted mask and the
/// true one in colors of classes. For classes a tile is a sample, whose captions are the predicted
/// class with its probability and then the label; it is marked where they differ. The label is the
/// first field of integers that is a mask, or a label; where there is none, predictions are shown
/// alone.
class PreviewSheet {
 public:
  /// `chain`: the transforms ahead of the model. Throws Refused for what a DataLoader refuses, and
  /// where images cannot be shown, as augment_sheet() does.
  PreviewSheet(std::shared_ptr<const Dataset> samples, const std::vector<NamedOp>& chain,
               const PreviewSheetOptions& options = {});

  /// Reads the samples again. Throws Error for one that cannot be read. REQUIRES: one prediction
  /// for each sample, at least one, all of one kind
  Sheet sheet(const std::vector<Prediction>& predictions);

 private:
  const std::shared_ptr<const Dataset> samples_;
  const std::int64_t cell_;
  const SampleSteps steps_;
  const std::size_t image_;
  const ShownLevels levels_;
};

}  // namespace slipstream
