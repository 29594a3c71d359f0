#include "features/feature_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/plain_message.h"
#include "core/text.h"
#include "features/feature_slot.h"
#include "features/record_files.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Calls `visit` with the entries of a folder, in no particular order. Links are left out.
template <typename Visit>
std::error_code visit_entries(const fs::path& folder, const Visit& visit) {
  std::error_code failed, ignored;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (!at->is_symlink(ignored)) visit(*at);
  return failed;
}

/// Returns true for files that this library creates in the folder of a key.
bool is_own_file(const fs::path& name) {
  const bool is_temporary = name.string().starts_with(".slipstream-") && name.extension() == ".tmp";
  return is_temporary || name == kFeatureManifest || is_record_file(name);
}

bool is_key_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored) && fs::exists(entry.path() / kFeatureManifest, ignored);
}

FeatureKey describe_key(const fs::path& dir) {
  FeatureKey key;
  key.name = dir.filename().string();
  try {
    key.manifest = read_feature_manifest(dir);
    if (key.manifest->folder_name() != key.name)
      key.problem = "its manifest describes the key " + key.manifest->folder_name();
  } catch (const Refused& refused) {
    key.problem = refused.what();
  }
  visit_entries(dir, [&](const fs::directory_entry& entry) {
    std::error_code failed;
    const fs::path name = entry.path().filename();
    const std::uintmax_t size = entry.file_size(failed);
    if (!failed && name.extension() == ".index" && is_record_file(name))
      key.records += size / sizeof(FeatureSlot);
  });
  key.bytes = feature_key_bytes(dir);
  struct ::stat status {};
  if (::lstat((dir / kFeatureManifest).c_str(), &status) == 0) key.last_used = status.st_mtime;
  return key;
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw Error("cannot remove '" + path.string() + "': " + errno_message(errno));
}

/// Removes the files of a key. Returns false if a process has the key open.
/// REQUIRES: the caller holds the FeatureFolderLock
bool remove_key(const fs::path& dir) {
  CacheFile manifest;
  if (manifest.open(dir / kFeatureManifest, false) == 0 &&
      manifest.try_lock(CacheFile::LockKind::exclusive) == EWOULDBLOCK)
    return false;
  std::vector<fs::path> files;
  visit_entries(dir, [&](const fs::directory_entry& entry) {
    if (is_own_file(entry.path().filename())) files.push_back(entry.path());
  });
  // The manifest is last, so that an interrupted removal leaves a key that can be removed again.
  std::partition(files.begin(), files.end(),
                 [](const fs::path& file) { return file.filename() != kFeatureManifest; });
  for (const fs::path& file : files) remove_file(file);
  ::rmdir(dir.c_str());  // fails if the folder has other files, which stay
  return true;
}

/// Returns the keys to remove. `keys`: the most recently used first.
std::vector<FeatureKey> choose_keys(const std::vector<FeatureKey>& keys, const FeaturePruning& by) {
  std::vector<FeatureKey> chosen;
  std::uint64_t kept_bytes = 0;
  bool is_full = false;
  for (const FeatureKey& key : keys) {
    const bool is_named = !by.name.empty() && key.name.starts_with(by.name);
    const bool is_old = by.last_used_before && key.last_used < *by.last_used_before;
    // From the first key that does not fit, all are removed: those after it were used less
    // recently.
    const bool is_wanted = !is_named && !is_old;
    is_full = is_full || (is_wanted && by.to_bytes && kept_bytes + key.bytes > *by.to_bytes);
    if (is_wanted && !is_full)
      kept_bytes += key.bytes;
    else
      chosen.push_back(key);
  }
  return chosen;
}

std::string names_text(const std::vector<FeatureKey>& keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const FeatureKey& key : keys) names.push_back(key.name);
  return names.empty() ? "it has none" : "it has " + joined(names);
}

}  // namespace

FeatureFolderLock::FeatureFolderLock(const fs::path& folder) {
  error_ = file_.open(path(folder), true);
  if (error_ != 0) return;
  hold_ = std::make_unique<CacheFile::Hold>(file_);
  error_ = hold_->error();
}

fs::path FeatureFolderLock::path(const fs::path& folder) { return folder / ".lock"; }

std::uint64_t feature_key_bytes(const fs::path& dir) {
  std::uint64_t bytes = 0;
  visit_entries(dir, [&](const fs::directory_entry& entry) {
    std::error_code failed;
    const std::uintmax_t size = entry.file_size(failed);
    if (!failed) bytes += size;
  });
  return bytes;
}

std::uint64_t feature_folder_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  visit_entries(folder, [&](const fs::directory_entry& entry) {
    if (is_key_folder(entry)) bytes += feature_key_bytes(entry.path());
  });
  return bytes;
}

std::vector<FeatureKey> list_feature_keys(const fs::path& folder) {
  std::vector<FeatureKey> keys;
  const std::error_code failed = visit_entries(folder, [&](const fs::directory_entry& entry) {
    if (is_key_folder(entry)) keys.push_back(describe_key(entry.path()));
  });
  if (failed)
    throw Refused("cannot read the folder '" + folder.string() + "': " + failed.message() +
                  "; name a folder of features");
  std::sort(keys.begin(), keys.end(), [](const FeatureKey& a, const FeatureKey& b) {
    return a.last_used != b.last_used ? a.last_used > b.last_used : a.name < b.name;
  });
  return keys;
}

FeatureKey find_feature_key(const fs::path& folder, const std::string& name) {
  const std::vector<FeatureKey> keys = list_feature_keys(folder);
  std::vector<FeatureKey> found;
  for (const FeatureKey& key : keys)
    if (key.name.starts_with(name)) found.push_back(key);
  if (found.size() == 1) return found.front();
  const std::string which =
      name.empty() ? "one key" : "one key whose name starts with '" + name + "'";
  throw Refused("'" + folder.string() + "' does not have exactly " + which + ": " +
                names_text(found.empty() ? keys : found) +
                (found.size() > 1 ? "; give --key with the start of one of these names" : ""));
}

PrunedFeatures prune_features(const fs::path& folder, const FeaturePruning& pruning) {
  if (!pruning.name.empty()) find_feature_key(folder, pruning.name);
  const std::vector<FeatureKey> keys = list_feature_keys(folder);
  PrunedFeatures pruned;
  const FeatureFolderLock lock(folder);
  if (lock.error() != 0)
    throw Error("cannot lock '" + FeatureFolderLock::path(folder).string() +
                "': " + errno_message(lock.error()));
  for (const FeatureKey& key : choose_keys(keys, pruning))
    (remove_key(folder / key.name) ? pruned.removed : pruned.in_use).push_back(key);
  pruned.bytes_left = feature_folder_bytes(folder);
  return pruned;
}

}  // namespace slipstream
