#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/cache_file.h"
#include "features/feature_manifest.h"

namespace slipstream {

/// Lets one process at a time create, grow or remove features in a folder. The system releases the
/// lock when the process ends.
class FeatureFolderLock {
 public:
  /// Waits for other holders. `folder` must exist.
  explicit FeatureFolderLock(const std::filesystem::path& folder);
  /// Returns 0, or the errno of what prevented the lock.
  int error() const { return error_; }
  static std::filesystem::path path(const std::filesystem::path& folder);

 private:
  CacheFile file_;
  int error_ = 0;
  std::unique_ptr<CacheFile::Hold> hold_;
};

/// Returns the total size of the files of all keys in a folder. Links are not followed.
std::uint64_t feature_folder_bytes(const std::filesystem::path& folder);
/// Returns the total size of the files of one key.
std::uint64_t feature_key_bytes(const std::filesystem::path& dir);

/// The features of one key in a folder.
struct FeatureKey {
  std::string name;  ///< of the subfolder: 16 hexadecimal digits
  std::optional<FeatureManifest> manifest;
  std::string problem;  ///< why the manifest cannot be used, or ""
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::time_t last_used = 0;  ///< when a program last opened or closed it
};

/// Lists the keys in a folder, the most recently used first. Throws Refused if it is not a folder,
/// or cannot be read.
std::vector<FeatureKey> list_feature_keys(const std::filesystem::path& folder);

/// Returns the key whose name starts with `name`, or the only key if `name` is empty. Throws
/// Refused with the names of all keys if there is none or more than one.
FeatureKey find_feature_key(const std::filesystem::path& folder, const std::string& name);

/// Selects the keys to remove: those for which one of the conditions holds.
struct FeaturePruning {
  std::string name = {};                             ///< its name starts with this text, if any
  std::optional<std::time_t> last_used_before = {};  ///< it was last used before this time
  /// It is among the least recently used keys that must be removed until the others have at most
  /// this size.
  std::optional<std::uint64_t> to_bytes = {};
};

struct PrunedFeatures {
  std::vector<FeatureKey> removed;
  std::vector<FeatureKey> in_use;  ///< not removed, because a process has them open
  std::uint64_t bytes_left = 0;
};

/// Removes keys from a folder. Only files that this library creates are removed, and links are not
/// followed. Throws Refused as list_feature_keys() and find_feature_key() do, and Error if a file
/// cannot be removed.
PrunedFeatures prune_features(const std::filesystem::path& folder, const FeaturePruning& pruning);

}  // namespace slipstream
