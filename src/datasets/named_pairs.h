#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace slipstream {

struct NamedPair {
  std::filesystem::path image;
  std::filesystem::path mask;
};

struct NamedPairs {
  std::vector<NamedPair> pairs;
  std::vector<std::string> remarks;  ///< remarks on files in unsupported formats
};

/// Finds the images/NAME.jpg|jpeg|png of `dir` and their masks/NAME.png, sorted by NAME. Extensions
/// may be in upper or lower case; files with other names and hidden ones are skipped. Throws as
/// segmentation_folder() does.
NamedPairs find_named_pairs(const std::filesystem::path& dir);

}  // namespace slipstream
