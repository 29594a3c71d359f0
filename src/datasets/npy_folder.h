#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "datasets/npy_manifest.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// Opens the .npy files of DIR as its manifest describes them. `classes` is used for the field
/// "label" if the manifest does not specify its number of classes. Throws Refused for an unfinished
/// conversion, and what npy_maps() throws. Throws Error for files that do not match the manifest.
std::shared_ptr<const Dataset> open_npy_folder(const std::filesystem::path& dir,
                                               const NpyManifest& manifest, std::int64_t classes);

/// Opens arrays and derives their kinds from shape and dtype, and field names from file names:
/// uint8 of four dimensions are images, integers of three dimensions masks and of one dimension
/// labels; all others have no kind. `classes` is for the field "label".
std::shared_ptr<const Dataset> open_npy_files(const std::vector<std::filesystem::path>& files,
                                              std::int64_t classes);

}  // namespace slipstream
