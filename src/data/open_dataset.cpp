#include <algorithm>

#include "slipstream/datasets.h"
#include "slipstream/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAnyClass = 256;

bool is_shard(const fs::path& path) { return path.extension() == ".tar"; }

bool holds_shards(const fs::path& dir) {
  const auto is_shard_entry = [](const fs::directory_entry& entry) {
    return is_shard(entry.path());
  };
  return std::any_of(fs::directory_iterator(dir), fs::directory_iterator(), is_shard_entry);
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const fs::path& path, std::int64_t classes) {
  TarShardOptions shards;
  shards.classes = classes;
  std::error_code failed;
  if (!fs::exists(path, failed))
    throw Refused("there is no file or folder '" + path.string() + "'");
  if (is_shard(path)) return tar_shards({path}, shards);
  if (path.extension() == ".csv" || path.extension() == ".jsonl") return listed(path);
  if (!fs::is_directory(path, failed))
    throw Refused("'" + path.string() +
                  "' is no data set: give a folder of images/ and masks/, a folder of class "
                  "folders, a .csv or "
                  ".jsonl list, a .tar shard, or a folder of them");
  if (fs::is_directory(path / "images", failed) && fs::is_directory(path / "masks", failed))
    return segmentation_folder(path, kAnyClass);
  if (holds_shards(path)) return tar_shards({path}, shards);
  return class_folder(path);
}

}  // namespace slipstream
