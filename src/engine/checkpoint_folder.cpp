#include "engine/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/files.h"
#include "core/plain_message.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";
constexpr const char* kBest = "best";
constexpr const char* kLast = "last";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr std::string_view kReplaced = "-replaced";
constexpr std::size_t kDigits = 8;

std::string checkpoint_name(std::uint64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kStep) + std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

std::optional<std::uint64_t> step_in(const std::string& name) {
  if (name.rfind(kStep, 0) != 0) return std::nullopt;
  std::uint64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kStep.size(), end, step);
  if (error != std::errc() || at != end || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

void name_anew(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw Error("cannot rename " + from.string() + " to " + to.string() + ": " +
                errno_message(errno));
}

/// Removes a file, or a folder with its content. std::filesystem::remove_all() cannot be used:
/// LibTorch exports its own version of it, which calls a function that does not exist.
void remove_files(const fs::path& path) {
  std::error_code ignored;
  std::vector<fs::path> files;
  if (fs::is_directory(fs::symlink_status(path, ignored)))
    for (const fs::directory_entry& each : fs::directory_iterator(path, ignored))
      files.push_back(each.path());
  for (const fs::path& file : files) remove_files(file);
  fs::remove(path, ignored);
}

/// Removes a folder. It is renamed first, so that no checkpoint's name ever refers to a partly
/// removed folder.
void remove_whole(const fs::path& folder) {
  const fs::path away = folder.parent_path() / (std::string(kUnfinished) + "removed");
  remove_files(away);
  name_anew(folder, away);
  remove_files(away);
}

/// Throws Refused if `best` or `last` is a folder. A copying program that follows links creates a
/// folder in place of the link, and setting the link would destroy it.
void require_links(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {kBest, kLast}) {
    const fs::path named = folder / name;
    if (fs::is_directory(fs::symlink_status(named, ignored)))
      throw Refused(named.string() +
                    " is a folder, not a link to a checkpoint: rename it to keep it, or remove it");
  }
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code failed;
  return entry.is_directory(failed);
}

/// Restores a checkpoint that exchange() had renamed when the process ended, or removes an
/// unfinished folder.
void restore_or_remove(const fs::path& unfinished) {
  std::string name = unfinished.filename().string();
  if (name.ends_with(kReplaced)) {
    name = name.substr(kUnfinished.size(), name.size() - kUnfinished.size() - kReplaced.size());
    const fs::path place = unfinished.parent_path() / name;
    std::error_code failed;
    if (step_in(name) && !fs::exists(place, failed)) {
      fs::rename(unfinished, place, failed);
      if (!failed) return;
    }
  }
  remove_files(unfinished);
}

void remove_unfinished(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& each : fs::directory_iterator(folder, failed))
    if (each.path().filename().string().rfind(kUnfinished, 0) == 0)
      unfinished.push_back(each.path());
  for (const fs::path& path : unfinished) restore_or_remove(path);
}

/// Renames `from` to `to`. If `to` exists, the two names are exchanged, atomically if the file
/// system supports it. Otherwise the old folder is renamed first; restore_or_remove() restores it
/// if the process ends in between.
void exchange(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  if (!fs::exists(fs::symlink_status(to, failed))) return name_anew(from, to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  // File systems without RENAME_EXCHANGE report one of these two errors.
  if (errno != EINVAL && errno != ENOSYS)
    throw Error("cannot rename " + from.string() + " to " + to.string() + ": " +
                errno_message(errno));
  const fs::path away = from.string() + std::string(kReplaced);
  remove_files(away);
  name_anew(to, away);
  name_anew(from, to);
  name_anew(away, from);
}

/// A folder that the destructor removes. become() renames it; the destructor then removes what had
/// the name before.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(fs::path path) : path_(std::move(path)) {
    remove_files(path_);
    std::error_code failed;
    fs::create_directory(path_, failed);
    if (failed) throw Error("cannot make " + path_.string() + ": " + failed.message());
  }
  ~UnfinishedFolder() { remove_files(path_); }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const fs::path& path() const { return path_; }
  /// Renames the folder to `named`. An existing folder of that name gets the temporary name and is
  /// removed with this object. The parent folder is synced so that the new name survives a power
  /// failure.
  void become(const fs::path& named) {
    exchange(path_, named);
    sync_folder(named.parent_path());
  }

 private:
  fs::path path_;
};

}  // namespace

std::optional<std::uint64_t> parse_step(const fs::path& path) {
  return step_in((path.has_filename() ? path : path.parent_path()).filename().string());
}

std::vector<FoundCheckpoint> checkpoints_in(const fs::path& folder) {
  std::vector<FoundCheckpoint> found;
  std::error_code failed;
  for (const fs::directory_entry& each : fs::directory_iterator(folder, failed))
    if (const auto step = step_in(each.path().filename().string()); step && is_folder(each))
      found.push_back({each.path(), *step});
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

CheckpointFolder::CheckpointFolder(fs::path folder) : folder_(std::move(folder)) {
  require_links(folder_);
  try {
    take();
  } catch (const Refused&) {
    throw;
  } catch (const Error& error) {
    throw Refused(error.what());
  }
  remove_unfinished(folder_);
}

CheckpointFolder::~CheckpointFolder() { release_lock(); }

void CheckpointFolder::release_lock() {
  if (lock_ >= 0) ::close(lock_);
  lock_ = -1;
}

/// Locks the folder for this process. If the folder was removed and created again, the lock file of
/// the old one protects nothing, so it is closed first.
void CheckpointFolder::take() {
  release_lock();
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) throw Error("cannot make the folder " + folder_.string() + ": " + failed.message());
  const fs::path lock = folder_ / kLock;
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock_ < 0) throw Error("cannot write into " + folder_.string() + ": " + errno_message(errno));
  // The system releases this lock when the process ends, however it ends, so a killed run leaves no
  // lock.
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  release_lock();
  if (error == EWOULDBLOCK)
    throw Refused("another run stores its checkpoints in " + folder_.string() +
                  ": give each run a separate folder");
  throw Error("cannot lock " + lock.string() + ": " + errno_message(error));
}

/// Returns true if the locked file is the one that the path refers to now. A removed and recreated
/// lock file has another inode.
bool CheckpointFolder::is_taken() const {
  struct stat own {
  }, there{};
  return lock_ >= 0 && ::fstat(lock_, &own) == 0 &&
         ::stat((folder_ / kLock).c_str(), &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

fs::path CheckpointFolder::add(std::uint64_t step,
                               const std::function<void(const fs::path&)>& fill) {
  if (!is_taken()) take();
  fs::path named = folder_ / checkpoint_name(step);
  UnfinishedFolder unfinished(folder_ / (std::string(kUnfinished) + checkpoint_name(step)));
  fill(unfinished.path());
  // The files must be on the disk before the rename: after a power failure, the name must not refer
  // to an incomplete folder.
  sync_folder(unfinished.path());
  unfinished.become(named);
  return named;
}

/// Sets the link `name` to the checkpoint of `step`. The link is created under a temporary name and
/// renamed, because a rename replaces the old link atomically. Returns an error if no link could be
/// created.
std::error_code CheckpointFolder::link_to(std::uint64_t step, const std::string& name) {
  const fs::path link = folder_ / (std::string(kUnfinished) + name);
  std::error_code failed;
  fs::remove(link, failed);
  fs::create_directory_symlink(checkpoint_name(step), link, failed);
  if (failed) return failed;
  try {
    name_anew(link, folder_ / name);
  } catch (const Error&) {
    remove_files(link);
    throw;
  }
  sync_folder(folder_);
  return {};
}

void CheckpointFolder::set_best(std::uint64_t step) {
  if (const std::error_code failed = link_to(step, kBest))
    throw Error("cannot make the link " + (folder_ / kBest).string() + ": " + failed.message());
}

void CheckpointFolder::set_last(std::uint64_t step) {
  const std::error_code failed = link_to(step, kLast);
  const bool has_no_links = failed == std::errc::operation_not_permitted ||
                            failed == std::errc::operation_not_supported ||
                            failed == std::errc::function_not_supported;
  if (failed && !has_no_links)
    throw Error("cannot make the link " + (folder_ / kLast).string() + ": " + failed.message());
}

void CheckpointFolder::keep(std::size_t count, std::uint64_t latest) {
  std::error_code failed;
  const std::string best = fs::read_symlink(folder_ / kBest, failed).filename().string();
  const std::string last = fs::read_symlink(folder_ / kLast, failed).filename().string();
  std::size_t kept = 0;
  for (const FoundCheckpoint& each : checkpoints_in(folder_)) {
    if (each.step > latest || kept++ < std::max<std::size_t>(1, count)) continue;
    const std::string name = each.path.filename().string();
    if (name != best && name != last) remove_whole(each.path);
  }
}

}  // namespace slipstream
