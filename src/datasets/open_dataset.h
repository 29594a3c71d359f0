#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Like open_dataset(), for models that read masks: the masks of images/ and masks/ have `classes`
/// classes (2 to 256), or as many as there are names. Class folders and missing paths are refused
/// as segmentation_folder() does.
std::shared_ptr<const Dataset> open_dataset_of_masks(const std::filesystem::path& path,
                                                     std::int64_t classes,
                                                     const std::vector<std::string>& class_names);

/// Known information on the classes of data that may have no labels.
struct KnownClasses {
  std::vector<std::string> names = {};  ///< by index; empty if unknown
  std::int64_t count = 0;               ///< 0 if unknown
};

/// Opens data for predictions, which need no labels. Returns the images in the folder `path`, with
/// classes if its folders are named like known classes. Returns unlabeled_images() instead with
/// `needs_masks`, if some images are in no folder, if a folder is not a known class, or if class
/// names are unknown and the number of folders is not the number of classes. Returns nullptr for
/// all other data, which open_dataset() can open.
std::shared_ptr<const Dataset> open_to_predict(const std::filesystem::path& path,
                                               const KnownClasses& classes, bool needs_masks);

}  // namespace slipstream
