#include "datasets/open_dataset.h"

#include <algorithm>

#include "datasets/class_names.h"
#include "datasets/field_values.h"
#include "datasets/folders.h"
#include "datasets/npy_folder.h"
#include "datasets/scan_watch.h"
#include "datasets/unlabeled_images.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

struct DatasetNeeds {
  std::int64_t classes = 0;  ///< number of classes of the label; 0 for any
  Names names = {};
  bool needs_masks = false;
};

bool is_shard(const fs::path& path) { return lower_extension(path) == ".tar"; }

bool is_list(const fs::path& path) {
  return lower_extension(path) == ".csv" || lower_extension(path) == ".jsonl";
}

bool is_npy(const fs::path& path) { return lower_extension(path) == ".npy"; }

struct FolderContents {
  bool shards = false, folders = false;
  std::vector<fs::path> npy;
};

/// Lists the kinds of data in a folder. Throws Refused if it is ambiguous which are the data.
FolderContents list_contents(const fs::path& dir) {
  FolderContents held;
  std::error_code failed;
  for (const fs::path& entry : list_folder(dir)) {
    ScanWatch::poll();
    const bool is_folder = fs::is_directory(entry, failed);
    held.folders |= is_folder;
    held.shards |= !is_folder && lower_extension(entry) == ".tar";
    if (!is_folder && is_npy(entry)) held.npy.push_back(entry);
  }
  if (held.shards && held.folders)
    throw Refused("'" + dir.string() +
                  "' contains both .tar shards and folders: it is not clear which are the data; "
                  "move them to separate folders");
  return held;
}

/// Opens shards twice if necessary: only the opened shards show whether the label is a mask, for
/// which `classes` is another option.
std::shared_ptr<const Dataset> open_shards(const fs::path& path, std::int64_t classes) {
  TarShardOptions options;
  options.classes = classes;
  auto shards = tar_shards({path}, options);
  const FieldSpec last = shards->fields().back();
  const bool is_mask = last.kind == FieldKind::mask && last.name == "label";
  if (!is_mask || classes == 0 || classes > kMostMaskClasses) return shards;
  options.mask_classes = classes;
  return tar_shards({path}, options);
}

std::shared_ptr<const Dataset> open_masks(const fs::path& dir, const DatasetNeeds& wanted) {
  const std::int64_t most = wanted.needs_masks ? wanted.classes : kMostMaskClasses;
  const auto named = static_cast<std::int64_t>(wanted.names.size());
  return with_class_names(segmentation_folder(dir, named == 0 ? most : named), wanted.names, dir);
}

/// Opens class folders or masks. .npy files next to class folders are ignored, but if opening fails
/// the error mentions them.
std::shared_ptr<const Dataset> open_classes(const fs::path& dir, const FolderContents& held,
                                            const DatasetNeeds& wanted) {
  try {
    if (wanted.needs_masks) return open_masks(dir, wanted);
    return image_folder(dir, {.classes = wanted.names});
  } catch (const Error& error) {
    if (held.npy.empty()) throw;
    throw Refused("'" + dir.string() +
                  "' contains .npy files next to folders: move the folders away if the arrays are "
                  "the data; the folders cannot be opened as a data set: " +
                  error.what());
  }
}

std::shared_ptr<const Dataset> open_folder(const fs::path& dir, const DatasetNeeds& wanted) {
  const auto& [classes, names, needs_masks] = wanted;
  std::error_code failed;
  if (const auto manifest = find_npy_manifest(dir))
    return with_class_names(open_npy_folder(dir, *manifest, classes), names, dir);
  if (fs::is_directory(dir / "images", failed) && fs::is_directory(dir / "masks", failed))
    return open_masks(dir, wanted);
  const FolderContents held = list_contents(dir);
  if (!held.folders && held.npy.empty()) {
    require_complete_shards(dir);
    if (!held.shards && fs::exists(lock_path(dir), failed))
      throw Refused("the conversion in '" + dir.string() +
                    "' is not finished: nothing is written yet; run the same convert again");
  }
  if (held.shards) return with_class_names(open_shards(dir, classes), names, dir);
  if (!held.npy.empty() && !held.folders)
    return with_class_names(open_npy_files(held.npy, classes), names, dir);
  return open_classes(dir, held, wanted);
}

std::shared_ptr<const Dataset> open(const fs::path& path, const DatasetNeeds& wanted) {
  const auto& [classes, names, needs_masks] = wanted;
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    if (needs_masks) return open_masks(path, wanted);
    throw Refused("there is no file or folder '" + path.string() + "'");
  }
  if (fs::is_directory(path, failed)) return open_folder(path, wanted);
  if (is_shard(path)) return with_class_names(open_shards(path, classes), names, path);
  if (is_list(path)) return listed(path, {.classes = names});
  if (is_npy(path)) return with_class_names(open_npy_files({path}, classes), names, path);
  throw Refused(
      "'" + path.string() +
      "' is not a data set: give a folder of images/ and masks/, a folder of class folders, "
      "a .csv or .jsonl list, a .tar shard, a .npy file, or a folder of such shards or "
      "files");
}

/// Returns true if open_dataset() would look for class folders in `dir`, or for masks.
bool may_be_classes(const fs::path& dir) {
  std::error_code failed;
  if (!fs::is_directory(dir, failed) || find_npy_manifest(dir)) return false;
  if (fs::is_directory(dir / "images", failed) && fs::is_directory(dir / "masks", failed))
    return false;
  const FolderContents held = list_contents(dir);
  return !held.shards && held.npy.empty() && !fs::exists(lock_path(dir), failed);
}

/// Returns true if the folders in `dir` are classes, as far as is known, and contain all images.
bool are_classes(const fs::path& dir, const KnownClasses& known) {
  const Names& names = known.names;
  std::int64_t folders = 0;
  std::error_code failed;
  for (const fs::path& entry : list_folder(dir)) {
    ScanWatch::poll();
    if (!fs::is_directory(entry, failed)) {
      if (is_image_name(entry)) return false;
      continue;
    }
    ++folders;
    const std::string name = entry.filename().string();
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) return false;
  }
  return !names.empty() || known.count == 0 || folders == known.count;
}

}  // namespace

std::shared_ptr<const Dataset> open_to_predict(const fs::path& path, const KnownClasses& classes,
                                               bool needs_masks) {
  if (!may_be_classes(path)) return nullptr;
  if (needs_masks || !are_classes(path, classes)) return unlabeled_images(path, classes.names);
  if (classes.names.empty()) return nullptr;
  return image_folder(path, {.classes = classes.names});
}

std::shared_ptr<const Dataset> open_dataset(const fs::path& path, std::int64_t classes) {
  return open(path, {.classes = classes});
}

std::shared_ptr<const Dataset> open_dataset(const fs::path& path,
                                            const std::vector<std::string>& class_names) {
  return open(path, {.names = class_names});
}

std::shared_ptr<const Dataset> open_dataset_of_masks(const fs::path& path, std::int64_t classes,
                                                     const std::vector<std::string>& class_names) {
  return open(
      path,
      {.classes = class_names.empty() ? classes : 0, .names = class_names, .needs_masks = true});
}

}  // namespace slipstream
