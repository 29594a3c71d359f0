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
  std::vector<std::string> remarks;  ///< files of formats that are not read
};

/// The images/NAME.jpg|jpeg|png of `dir` with their masks/NAME.png, sorted by NAME; extensions in
/// either case; files of other names and hidden ones are passed over. Throws as
/// segmentation_folder() does.
NamedPairs find_named_pairs(const std::filesystem::path& dir);

}  // namespace slipstream
