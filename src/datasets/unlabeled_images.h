#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Opens the images in `dir` and in the folders below it (kImageNames), sorted by path, byte by
/// byte. The only field is "image" (encoded, uint8, height x width x 3). `class_names` are those of
/// predictions. Returns nullptr if there is no image.
std::shared_ptr<const Dataset> unlabeled_images(const std::filesystem::path& dir,
                                                std::vector<std::string> class_names);

}  // namespace slipstream
