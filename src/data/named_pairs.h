#pragma once

#include <filesystem>
#include <vector>

namespace slipstream {

struct NamedPair {
  std::filesystem::path image;
  std::filesystem::path mask;
};

/// The images/NAME.jpg|jpeg|png of `dir` with their masks/NAME.png, sorted by NAME; extensions in
/// either case; files of other names and hidden ones are passed over. Throws as
/// segmentation_folder() does.
std::vector<NamedPair> find_named_pairs(const std::filesystem::path& dir);

}  // namespace slipstream
