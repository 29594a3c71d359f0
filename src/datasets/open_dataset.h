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

}  // namespace slipstream
