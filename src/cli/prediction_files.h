#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/files.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Writes predictions to files. Masks are written to NAME.png, a gray image of class numbers, where
/// NAME is the sample's name without extension. Classes are written to predictions.jsonl, with one
/// object per line, in order.
class PredictionFiles {
 public:
  /// Creates the folder. Throws Refused if it cannot be created or is not empty. `dataset` must
  /// outlive this object.
  PredictionFiles(std::filesystem::path folder, const Dataset& dataset);

  /// Writes a mask: uint8, height x width. Throws Error if it cannot be written.
  void add_mask(std::uint64_t sample, const ConstArray& mask);
  /// Writes the most probable classes with their probabilities. The first one is the prediction.
  /// Throws Error if it cannot be written.
  void add_classes(std::uint64_t sample,
                   const std::vector<std::pair<std::int64_t, float>>& classes);
  std::uint64_t written() const { return written_; }

 private:
  std::string class_name(std::int64_t number) const;

  std::filesystem::path folder_;
  const Dataset& dataset_;
  std::unique_ptr<LineFile> lines_;
  std::uint64_t written_ = 0;
  std::set<std::string> places_;  ///< paths of the masks that were written
};

}  // namespace slipstream
