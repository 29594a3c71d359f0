#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "datasets/npy_manifest.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// The maps of DIR as its manifest says; `classes` of the field "label" where it does not say how
/// many there are. Throws Refused for a conversion that is not finished, and what npy_maps()
/// throws; Error for files that are not of the manifest.
std::shared_ptr<const Dataset> open_npy_folder(const std::filesystem::path& dir,
                                               const NpyManifest& manifest, std::int64_t classes);

/// Arrays by their forms, fields by the files' names: uint8 of four dimensions are images, integers
/// of three masks and of one labels; all else has no kind. `classes` of the field "label".
std::shared_ptr<const Dataset> open_npy_files(const std::vector<std::filesystem::path>& files,
                                              std::int64_t classes);

}  // namespace slipstream
