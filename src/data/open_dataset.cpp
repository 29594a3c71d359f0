#include "data/folders.h"
#include "slipstream/datasets.h"
#include "slipstream/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAnyClass = 256;

bool is_shard(const fs::path& path) { return lower_extension(path) == ".tar"; }

bool is_list(const fs::path& path) {
  return lower_extension(path) == ".csv" || lower_extension(path) == ".jsonl";
}

/// Whether `dir` holds shards. Throws Refused where it holds folders too.
bool holds_shards(const fs::path& dir) {
  std::error_code failed;
  bool shards = false, folders = false;
  for (const fs::path& entry : list_folder(dir)) {
    const bool is_folder = fs::is_directory(entry, failed);
    folders |= is_folder;
    shards |= !is_folder && is_shard(entry);
  }
  if (shards && folders)
    throw Refused("'" + dir.string() +
                  "' holds both .tar shards and folders: it is not clear which are the data; "
                  "give them folders of their own");
  return shards;
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const fs::path& path, std::int64_t classes) {
  TarShardOptions shards;
  shards.classes = classes;
  std::error_code failed;
  if (!fs::exists(path, failed))
    throw Refused("there is no file or folder '" + path.string() + "'");
  if (is_shard(path)) return tar_shards({path}, shards);
  if (is_list(path)) return listed(path);
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
