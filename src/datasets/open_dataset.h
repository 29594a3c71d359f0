#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// open_dataset() for models that read masks: the masks of images/ and masks/ have `classes`
/// classes (2 to 256), or as many as have names, and what would be class folders or is not there is
/// refused as segmentation_folder() does.
std::shared_ptr<const Dataset> open_dataset_of_masks(const std::filesystem::path& path,
                                                     std::int64_t classes,
                                                     const std::vector<std::string>& class_names);

/// What is known of the classes of data that may have no labels.
struct KnownClasses {
  std::vector<std::string> names = {};  ///< by number; empty: unknown
  std::int64_t count = 0;               ///< 0: unknown
};

/// For predictions, which need no labels: the images in the folder `path`, with their classes where
/// its folders are called as classes that are known. Else they are unlabeled_images(): where some
/// lie in no folder, with `needs_masks`, where a folder is none of the classes, and where there are
/// more or fewer folders than classes whose names are unknown. nullptr for all other data, for
/// open_dataset() to open.
std::shared_ptr<const Dataset> open_to_predict(const std::filesystem::path& path,
                                               const KnownClasses& classes, bool needs_masks);

}  // namespace slipstream
