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

/// The files of predictions: for masks NAME.png, gray, with class numbers, where NAME is the
/// sample's without its ending; for classes predictions.jsonl, an object a line, in order.
class PredictionFiles {
 public:
  /// Makes the folder. Throws Refused for one that cannot be made or is not empty. `dataset` must
  /// outlive this.
  PredictionFiles(std::filesystem::path folder, const Dataset& dataset);

  /// uint8, height x width. Throws Error where it cannot be written.
  void add_mask(std::uint64_t sample, const ConstArray& mask);
  /// The most probable classes with their probabilities, the first one the prediction. Throws as
  /// above.
  void add_classes(std::uint64_t sample,
                   const std::vector<std::pair<std::int64_t, float>>& classes);
  std::uint64_t written() const { return written_; }

 private:
  std::string class_name(std::int64_t number) const;

  std::filesystem::path folder_;
  const Dataset& dataset_;
  std::unique_ptr<LineFile> lines_;
  std::uint64_t written_ = 0;
  std::set<std::string> places_;  ///< of masks that were written
};

}  // namespace slipstream
