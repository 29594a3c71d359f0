#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/dataset.h"

namespace slipstream {

/// A data set with one class number a sample, known without reading it.
class LabelledDataset : public Dataset {
 public:
  /// Names of the classes by number; empty where they have none.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual std::int64_t label(std::size_t index) const = 0;
};

struct ClassFolderOptions {
  /// The classes in the order of their numbers, so that a part of the data (for validation) is
  /// numbered as the whole is; empty: every folder in DIR, sorted by name.
  std::vector<std::string> classes = {};
};

/// DIR/CLASS/**/*.jpg|jpeg|png (extensions in either case): fields "image" (encoded, height x width
/// x 3) and "label" (i64). Sorted by class and then by path, both byte by byte. Hidden files and
/// folders (.NAME), other files, and images outside of a class are passed over. Links are
/// followed; a folder that a class reaches twice, through a link or a loop of links, counts once.
/// Throws Refused for a folder that is not there or cannot be listed; Error where there is no
/// class, for classes without images, and with `classes` for folders that are none of them (a
/// class without a folder or images is allowed then).
std::shared_ptr<const LabelledDataset> class_folder(const std::filesystem::path& dir,
                                                    const ClassFolderOptions& options = {});

}  // namespace slipstream
